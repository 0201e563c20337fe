#!/bin/sh
# `fastocr run` for job runners that know only success and failure (Ray jobs, KubeRay, plain Kubernetes jobs).
# Exit code 3 means done, with failed pages or quarantined documents listed: that is no reason to run again, so it
# becomes 0 here. 1 and 2 stay what they are. With JOB_STRICT=1 the 3 is handed on.
fastocr run "$@"
code=$?
if [ "$code" -eq 3 ] && [ "${JOB_STRICT:-0}" != 1 ]; then
    echo "fastocr-job: done; some pages failed or documents are quarantined (exit code 3), see the list above" >&2
    exit 0
fi
exit "$code"
