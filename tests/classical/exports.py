# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models of scikit-learn, LightGBM and XGBoost as exported, by the native engine.

    exports.py export FOLDER     needs what `make nightly` installs into build/venv-train
    exports.py compare FOLDER    with ONNX Runtime's answers

What an exporter can't do is printed; so is what native refuses or answers otherwise, which fails.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx

FEATURES, ROWS = 8, 200
Data = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]


def classifiers() -> dict[str, Any]:
    from sklearn import (
        calibration,
        discriminant_analysis,
        ensemble,
        feature_selection,
        linear_model,
        naive_bayes,
        neighbors,
        neural_network,
        preprocessing,
        svm,
        tree,
    )
    from sklearn.decomposition import PCA
    from sklearn.impute import SimpleImputer
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.pipeline import make_pipeline

    shallow = tree.DecisionTreeClassifier(max_depth=4)
    logistic = linear_model.LogisticRegression()
    return {
        "tree": tree.DecisionTreeClassifier(max_depth=5),
        "forest": ensemble.RandomForestClassifier(20, max_depth=5),
        "extra-trees": ensemble.ExtraTreesClassifier(20, max_depth=5),
        "boosting": ensemble.GradientBoostingClassifier(n_estimators=20),
        "adaboost": ensemble.AdaBoostClassifier(n_estimators=10),
        "bagging": ensemble.BaggingClassifier(n_estimators=5),
        "logistic": logistic,
        "ridge": linear_model.RidgeClassifier(),
        "sgd": linear_model.SGDClassifier(),
        "perceptron": linear_model.Perceptron(),
        "svc": svm.SVC(),
        "svc-probability": calibration.CalibratedClassifierCV(svm.SVC(), cv=2),
        "linear-svc": svm.LinearSVC(),
        "nu-svc": svm.NuSVC(),
        "neighbours": neighbors.KNeighborsClassifier(),
        "mlp": neural_network.MLPClassifier((16,), max_iter=50),
        "gaussian-bayes": naive_bayes.GaussianNB(),
        "bernoulli-bayes": naive_bayes.BernoulliNB(),
        "lda": discriminant_analysis.LinearDiscriminantAnalysis(),
        "one-against-rest": OneVsRestClassifier(logistic),
        "calibrated": calibration.CalibratedClassifierCV(logistic, cv=2),
        "imputed": make_pipeline(SimpleImputer(), preprocessing.StandardScaler(), logistic),
        "selected": make_pipeline(
            preprocessing.MinMaxScaler(), feature_selection.SelectKBest(k=5), shallow
        ),
        "components": make_pipeline(PCA(4), svm.SVC()),
        "normalized": make_pipeline(preprocessing.Normalizer(), shallow),
        "robust": make_pipeline(preprocessing.RobustScaler(), logistic),
        "polynomial": make_pipeline(preprocessing.PolynomialFeatures(2), logistic),
        "binarized": make_pipeline(preprocessing.Binarizer(), naive_bayes.BernoulliNB()),
        "stacked": ensemble.StackingClassifier([("a", logistic), ("b", shallow)], cv=2),
    }


def regressors() -> dict[str, Any]:
    from sklearn import (
        ensemble,
        gaussian_process,
        linear_model,
        neighbors,
        neural_network,
        svm,
        tree,
    )
    from sklearn.cluster import KMeans

    return {
        "tree": tree.DecisionTreeRegressor(max_depth=5),
        "forest": ensemble.RandomForestRegressor(20, max_depth=5),
        "extra-trees": ensemble.ExtraTreesRegressor(20, max_depth=5),
        "boosting": ensemble.GradientBoostingRegressor(n_estimators=20),
        "adaboost": ensemble.AdaBoostRegressor(n_estimators=10),
        "bagging": ensemble.BaggingRegressor(n_estimators=5),
        "linear": linear_model.LinearRegression(),
        "lasso": linear_model.Lasso(),
        "huber": linear_model.HuberRegressor(),
        "svr": svm.SVR(),
        "linear-svr": svm.LinearSVR(),
        "nu-svr": svm.NuSVR(),
        "one-class": svm.OneClassSVM(),
        "neighbours": neighbors.KNeighborsRegressor(),
        "mlp": neural_network.MLPRegressor(hidden_layer_sizes=(16,), max_iter=50),
        "gaussian-process": gaussian_process.GaussianProcessRegressor(),
        "k-means": KMeans(3, n_init=1),
    }


def made() -> Iterator[tuple[str, Any, Data]]:
    """Each model by name, fitted, with what it was fitted to."""
    from sklearn.datasets import make_classification, make_regression

    def single(data: Data) -> Data:
        return data[0].astype(np.float32), data[1]

    two = single(make_classification(ROWS, FEATURES, n_informative=5, random_state=0))
    three = single(
        make_classification(ROWS, FEATURES, n_informative=5, n_classes=3, random_state=1)
    )
    real = single(make_regression(ROWS, FEATURES, random_state=2))
    several = single(make_regression(ROWS, FEATURES, n_targets=3, random_state=2))
    for name, model in classifiers().items():
        for count, data in (("two", two), ("three", three)):
            yield f"{name}-{count}", model.fit(*data), data
    for name, model in regressors().items():
        yield f"{name}-real", model.fit(*real), real
        if name in ("tree", "forest", "linear", "mlp"):
            yield f"{name}-several", model.fit(*several), several


def boosted() -> Iterator[tuple[str, onnx.ModelProto, np.ndarray[Any, Any]]]:
    import lightgbm
    import xgboost
    from onnxmltools import convert_lightgbm, convert_xgboost
    from onnxmltools.convert.common.data_types import FloatTensorType
    from sklearn.datasets import make_classification, make_regression

    types = [("x", FloatTensorType([None, FEATURES]))]
    x, real = make_regression(ROWS, FEATURES, random_state=2)
    for classes in (2, 3):
        rows, labels = make_classification(
            ROWS, FEATURES, n_informative=5, n_classes=classes, random_state=classes
        )
        rows = rows.astype(np.float32)
        light = lightgbm.LGBMClassifier(n_estimators=20, verbose=-1).fit(rows, labels)
        yield f"lightgbm-{classes}", convert_lightgbm(light, initial_types=types), rows
        extreme = xgboost.XGBClassifier(n_estimators=20).fit(rows, labels)
        yield f"xgboost-{classes}", convert_xgboost(extreme, initial_types=types), rows
    x = x.astype(np.float32)
    light = lightgbm.LGBMRegressor(n_estimators=20, verbose=-1).fit(x, real)
    yield "lightgbm-real", convert_lightgbm(light, initial_types=types), x
    extreme = xgboost.XGBRegressor(n_estimators=20).fit(x, real)
    yield "xgboost-real", convert_xgboost(extreme, initial_types=types), x


def export(folder: Path) -> None:
    from skl2onnx import to_onnx

    warnings.filterwarnings("ignore")
    folder.mkdir(parents=True, exist_ok=True)

    def save(name: str, model: onnx.ModelProto, x: np.ndarray[Any, Any]) -> None:
        (folder / f"{name}.onnx").write_bytes(model.SerializeToString())
        np.save(folder / f"{name}.npy", x[:20])

    for name, model, (x, _) in made():
        try:
            save(name, to_onnx(model, x[:1]), x)
        except Exception as error:
            print(f"{name}: the exporter: {str(error).splitlines()[0]}")
    for name, model, x in boosted():
        save(name, model, x)


def difference(path: Path) -> str:
    """What native says or answers otherwise; nothing if all is right."""
    import onnxruntime

    import mlbridge

    x = np.load(path.with_suffix(".npy"))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    asked = session.get_inputs()[0].name
    names = [output.name for output in session.get_outputs()]
    expected = dict(zip(names, session.run(None, {asked: x}), strict=True))
    try:
        opened = mlbridge.Model.open(f"native:{path}")
        signature = opened.model_signature
        assert signature
        opened.bind(signature)
        found = opened.new_runner().evaluate(**{asked: x})
    except mlbridge.Error as error:
        return str(error)
    for name, y in expected.items():
        if isinstance(y, list):  # of maps
            y = np.array([list(row.values()) for row in y], np.float32)
        if name not in found or found[name].shape != y.shape:
            return f"{name} is {found[name].shape if name in found else 'missing'}, not {y.shape}"
        if not np.allclose(found[name], y, rtol=1e-4, atol=1e-5, equal_nan=True):
            return f"{name} is {found[name].ravel()[:4]}…, not {y.ravel()[:4]}…"
    return ""


def compare(folder: Path) -> int:
    files = sorted(folder.glob("*.onnx"))
    bad = {path.stem: why for path in files if (why := difference(path))}
    for name, why in bad.items():
        print(f"{name}: {why}")
    print(f"{len(files)} models, {len(bad)} refused or wrong")
    return 1 if bad or not files else 0


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("export", "compare"):
        sys.exit(__doc__)
    if sys.argv[1] == "compare":
        sys.exit(compare(Path(sys.argv[2])))
    export(Path(sys.argv[2]))
