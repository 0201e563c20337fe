"""The S3 client of this process: how it is set up, what it tries again, and what its errors mean in one sentence.

Below are botocore's standard retries, for servers that are busy or silent. Here is what those leave out: a denial is
asked for again a few times, since some storages throttle so, and refused credentials are read again once, since
they may have been renewed meanwhile.
"""

import random
import threading
import time
from typing import Any, NoReturn

from workers.storage import (
    CredentialsRejected,
    StorageChanged,
    StorageDenied,
    StorageError,
    StorageMissing,
    StorageSettings,
    StorageUnreachable,
    StorageUnsupported,
)

DENIAL_RETRIES = 3
FIRST_WAIT_SECONDS = 0.2
MOST_WAIT_SECONDS = 5.0
MOST_SAID = 300
MISSING = {"404", "NoSuchKey", "NoSuchBucket", "NotFound"}
DENIED = {"403", "AccessDenied", "AllAccessDisabled", "Forbidden", "401"}
CONFLICT = {"409", "ConditionalRequestConflict", "OperationAborted"}
PRECONDITION = {"412", "PreconditionFailed"}
WITHOUT_BODY = {"400", "403"}  # answers to HEAD, which cannot say more
REJECTED = {
    "InvalidAccessKeyId": "it does not know the access key",
    "SignatureDoesNotMatch": "the secret key does not fit the access key",
    "ExpiredToken": "they have expired",
    "ExpiredTokenException": "they have expired",
    "TokenRefreshRequired": "they have expired",
    "InvalidToken": "the session token is not valid",
    "InvalidSecurity": "they are not valid",
    "AuthorizationHeaderMalformed": "the signature names another region than the bucket's; give --region",
    "RequestTimeTooSkewed": "the clock of this machine is wrong",
}
_MENDS = {
    "NoCredentialsError": "no credentials were found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
    "or name a profile",
    "PartialCredentialsError": "the credentials are incomplete",
    "CredentialRetrievalError": "the source of the credentials gave none; run the profile's credential "
    "process by hand to see why",
    "JSONDecodeError": "the credential process of the profile printed no JSON",
    "SSOTokenLoadError": "the profile is not signed in; run `aws sso login`",
    "UnauthorizedSSOTokenError": "the sign-in of the profile has ended; run `aws sso login`",
    "TokenRetrievalError": "the sign-in of the profile has ended; run `aws sso login`",
    "ProfileNotFound": "there is no such profile in the AWS configuration",
    "ConfigParseError": "the AWS configuration file cannot be read",
    "NoRegionError": "no region is known; give --region",
}
_lock = threading.Lock()
_clients: dict[StorageSettings, Any] = {}


def credentials_kind(settings: StorageSettings) -> str | None:
    """Where S3 credentials were found (`env`, `shared-credentials-file`, `iam-role`, ...), never what they are; None
    if there are none. Raises `StorageError` where the configuration itself is wrong.
    """
    import boto3
    from botocore.exceptions import BotoCoreError

    try:
        found = boto3.Session(profile_name=settings.profile).get_credentials()
    except (BotoCoreError, ValueError) as error:
        raise _setup_error(error) from error
    return None if found is None else str(found.method)


def request(settings: StorageSettings, operation: str, **parameters: Any) -> Any:
    """The answer to one request, such as `get_object`; raises what boto3 raises when all tries have failed.

    The tries are bounded: `max_attempts` below, `DENIAL_RETRIES` for denials, and one with credentials read anew.
    """
    denials = 0
    renewed = False
    while True:
        client = _client(settings)
        try:
            return getattr(client, operation)(**parameters)
        except errors() as error:
            code = error_code(error)
            if code in REJECTED and not renewed:
                _forget(settings, client)
                renewed = True
            elif code in DENIED and operation != "head_object" and denials < DENIAL_RETRIES:
                wait(denials)
                denials += 1
            else:
                raise


def wait(tries_before: int) -> None:
    """Sleep before the next try: longer each time, and never the same for all workers."""
    longest = min(FIRST_WAIT_SECONDS * 2**tries_before, MOST_WAIT_SECONDS)
    time.sleep(longest * random.uniform(0.5, 1.0))


def errors() -> tuple[type[Exception], ...]:
    """What boto3 raises, what the connection beneath a streamed body raises, and what a credential process that
    prints nonsense raises.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    return (BotoCoreError, ClientError, OSError, ValueError)


def error_code(error: Exception) -> str:
    """The S3 error code, or the HTTP status where a HEAD answer carries no body; empty for other errors."""
    answer = getattr(error, "response", None) or {}
    return str(answer.get("Error", {}).get("Code", ""))


def tries_before(error: Exception) -> int:
    """How often botocore had sent the request before the try that ended in this error."""
    answer = getattr(error, "response", None) or {}
    return int(answer.get("ResponseMetadata", {}).get("RetryAttempts", 0))


def raise_translated(error: Exception, place: str) -> NoReturn:
    """Turn an error of boto3 into ours, in one sentence."""
    code = error_code(error)
    kind = type(error).__name__
    if code in MISSING:
        what = "bucket" if code == "NoSuchBucket" else "object"
        raise StorageMissing(f"There is no such {what}: {place}.") from error
    if code in REJECTED:
        raise CredentialsRejected(
            f"The storage refused the credentials for {place}: {REJECTED[code]} ({code})."
        ) from error
    if kind in _MENDS:
        raise CredentialsRejected(f"{place} cannot be reached: {_MENDS[kind]}.") from error
    if code in DENIED:
        raise StorageDenied(
            f"Access to {place} was denied ({code}); the credentials are known but do not allow it."
        ) from error
    if code == "InvalidObjectState":
        raise StorageDenied(f"{place} lies in an archive class: restore it before it is read.") from error
    if code in PRECONDITION:
        raise StorageChanged(f"{place} changed since it was listed.") from error
    if code in ("NotImplemented", "501"):
        raise StorageUnsupported(
            f"The storage of {place} does not know this request: {said(error)}."
        ) from error
    if kind == "ParamValidationError":
        raise StorageMissing(f"{place} is no possible S3 location: {said(error)}.") from error
    if code:
        raise StorageError(f"{place}: the storage answered {code} ({said(error)}).") from error
    raise StorageUnreachable(f"{place} cannot be reached: {said(error)}.") from error


def said(error: Exception) -> str:
    """What an error says, on one line and not for pages; servers that are no S3 answer with whole HTML pages."""
    words = " ".join(str(error).split()).rstrip(".")
    return words if len(words) <= MOST_SAID else f"{words[:MOST_SAID]}…"


def _client(settings: StorageSettings) -> Any:
    """One thread-safe client per process and settings; making one costs 0.3 s."""
    with _lock:
        client = _clients.get(settings)
        if client is None:
            client = _clients[settings] = _made(settings)
        return client


def _forget(settings: StorageSettings, client: Any) -> None:
    """Let the next request make a new client, unless another thread has already."""
    with _lock:
        if _clients.get(settings) is client:
            del _clients[settings]


def _made(settings: StorageSettings) -> Any:
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    addressing = {None: "auto", True: "path", False: "virtual"}[settings.path_style]
    config = Config(
        retries={"mode": "standard", "total_max_attempts": settings.max_attempts},
        connect_timeout=settings.connect_timeout_seconds,
        read_timeout=settings.read_timeout_seconds,
        request_checksum_calculation=settings.checksum_mode,
        response_checksum_validation=settings.checksum_mode,
        s3={"addressing_style": addressing},
        max_pool_connections=32,
    )
    try:
        session = boto3.Session(profile_name=settings.profile, region_name=settings.region)
        return session.client("s3", endpoint_url=settings.endpoint_url, config=config)
    except (BotoCoreError, ValueError) as error:
        raise _setup_error(error) from error


def _setup_error(error: Exception) -> StorageError:
    return CredentialsRejected(f"S3 cannot be set up: {_MENDS.get(type(error).__name__, said(error))}.")
