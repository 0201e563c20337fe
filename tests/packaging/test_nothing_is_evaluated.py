"""What documents hold and models write is data: nothing in the packages can turn it into code or a command."""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGES = ("pipeline", "workers", "fastocr_core", "infra")
CALLS = {
    "eval", "exec", "compile", "__import__", "input",
    "os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput",
    "pickle.load", "pickle.loads", "pickle.Unpickler", "marshal.loads", "shelve.open", "dill.loads",
    "yaml.load", "yaml.unsafe_load", "pandas.read_pickle", "joblib.load",
    "runpy.run_path", "code.interact", "tarfile.open", "shutil.unpack_archive",
}  # fmt: skip
ALLOWED = {
    (
        "workers/rasterize_shard.py",
        "pickle.loads",
    ),  # pages on their way between two actors of ours, through Ray
    (
        "fastocr_core/models/mini/train/webfonts.py",
        "tarfile.open",
    ),  # members are read into memory, and written under names that are not the archive's
}
LOADS_ARRAYS = {"numpy.load", "np.load"}  # safe only where it is said that nothing is unpickled
METHODS = {"extractall", "extract"}  # of archives, which name the files they want to be
TRUE_MEANS_DANGER = {"shell", "trust_remote_code", "allow_pickle"}


def _findings(repository: Path) -> Iterator[tuple[str, str]]:
    for package in PACKAGES:
        for module in sorted((repository / package).rglob("*.py")):
            place = str(module.relative_to(repository))
            for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call):
                    yield from ((place, name) for name in _dangers(node))


def _dangers(call: ast.Call) -> Iterator[str]:
    name = ast.unparse(call.func)
    if name in CALLS or name.rpartition(".")[2] in METHODS:
        yield name
    said = {keyword.arg: keyword.value for keyword in call.keywords}.get("allow_pickle")
    if name in LOADS_ARRAYS and not (isinstance(said, ast.Constant) and said.value is False):
        yield name
    for keyword in call.keywords:
        value = keyword.value
        harmless = isinstance(value, ast.Constant) and value.value is False
        unsafe = keyword.arg == "weights_only" and harmless  # torch.load, which is safe unless told not to be
        if unsafe or (keyword.arg in TRUE_MEANS_DANGER and not harmless):
            yield f"{name}({keyword.arg}=…)"


def test_no_package_evaluates_unpickles_or_runs_a_shell(repository: Path) -> None:
    assert sorted(set(_findings(repository)) - ALLOWED) == []


def test_the_search_finds_what_it_looks_for() -> None:
    source = "eval(x); os.system(y); g(weights_only=False)\n"
    source += "tar.extractall(z); run(a, shell=True); f(trust_remote_code=t); model.eval()"
    found = [
        name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call) for name in _dangers(node)
    ]
    assert sorted(found) == [
        "eval",
        "f(trust_remote_code=…)",
        "g(weights_only=…)",
        "os.system",
        "run(shell=…)",
        "tar.extractall",
    ]
