# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every public name of the release is here, or compat/README.md says what to write instead."""

from __future__ import annotations

import importlib
import inspect
import re

import pytest
from building import ROOT

PAGE = (ROOT / "compat" / "README.md").read_text()
HEADERS = "\n".join(h.read_text() for h in (ROOT / "compat" / "include").rglob("*.h"))

PUBLISHED = """
Action Agent BaseSerDes BitstreamSerDes Environment IntegerType JsonSerDes MLBRIDGE_DEBUG
MLBRIDGE_EXTENDED_TYPES MLConfig MLModelRunner NoopSavedModelImpl ONNXModel ONNXModelRunner
Observation PipeModelRunner ProtobufSerDes RealType SUPPORTED_TENSOR_TYPES SUPPORTED_TYPES
SerDesKind TFModelRunner TensorSpec TensorType TensorflowSerDes gRPCModelRunner
addAgent checkDone classof cleanDataStructures computeAction createSpec deserializeUntyped evaluate
evaluateUntyped exit_requested getElementByteSize getElementCount getEnvironment getKind getMessage
getMessageLength getNextAgent getRequest getResponse getSerDesKind getSerializedData
getTensorSpecFromJSON getTotalTensorBufferSize isElementType isEmbeddedModelEvaluatorValid mlconfig
obsMap populateFeatures port requestExit reset resetDone run setDone setEnvironment setFeature
setNextAgent setRequest setResponse setShape shape step tensorValueToString toJSON
PipeModelRunnerWrapper createEnvironment createONNXModelRunner createPipeModelRunner
createSingleAgentOMR destroyEnvironment destroyONNXModelRunner destroyPipeModelRunner env_checkDone
env_resetDone env_setDone env_setNextAgent env_setNumFeatures env_setResetFunc env_setStepFunc
evaluateFloatFeatures evaluateIntFeatures populateFloatFeatures populateIntFeatures
singleAgentEvaluate
""".split()
HEADER_FILES = """
MLModelRunner/C/ONNXModelRunner.h MLModelRunner/C/PipeModelRunner.h MLModelRunner/MLModelRunner.h
MLModelRunner/ONNXModelRunner/ONNXModelRunner.h MLModelRunner/ONNXModelRunner/agent.h
MLModelRunner/ONNXModelRunner/environment.h MLModelRunner/ONNXModelRunner/onnx.h
MLModelRunner/ONNXModelRunner/utils.h MLModelRunner/PipeModelRunner.h MLModelRunner/TFModelRunner.h
MLModelRunner/Utils/DataTypes.h MLModelRunner/Utils/Debug.h MLModelRunner/Utils/JSON.h
MLModelRunner/Utils/MLConfig.h MLModelRunner/gRPCModelRunner.h SerDes/TensorSpec.h
SerDes/baseSerDes.h SerDes/bitstreamSerDes.h SerDes/jsonSerDes.h SerDes/protobufSerDes.h
SerDes/tensorflowSerDes.h
""".split()


def is_named(name: str, text: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", text) is not None


def test_the_names_of_c_and_cpp() -> None:
    code = re.sub(r"//.*|/\*.*?\*/", "", HEADERS)
    assert [n for n in PUBLISHED if not is_named(n, code) and not is_named(n, PAGE)] == []


def test_the_headers() -> None:
    folder = ROOT / "compat" / "include"
    assert [file for file in HEADER_FILES if not (folder / file).is_file()] == []


@pytest.mark.parametrize(
    "module",
    [
        "BaseCompilerInterface",
        "GrpcCompilerInterface",
        "PipeCompilerInterface",
        "SerDes",
        "log_reader",
    ],
)
def test_the_names_of_the_python_package(module: str) -> None:
    theirs = importlib.import_module(f"compilerinterface.{module}")
    ours = importlib.import_module(f"CompilerInterface.{module}")
    for name, value in vars(theirs).items():
        if name.startswith("_") or getattr(value, "__module__", None) != theirs.__name__:
            continue
        assert hasattr(ours, name) or f"`{module}.{name}" in PAGE, name
        if not inspect.isclass(value):
            continue
        for member in vars(value):
            assert member.startswith("_") or hasattr(getattr(ours, name), member), (name, member)
