"""Packages of bert-tf's extras; training, evaluation and export work without them."""

import importlib

# Module to import: (package that pip installs, extra of bert-tf that includes it).
PACKAGES = {
    "ai_edge_litert.interpreter": ("ai-edge-litert", "lite"),
    "aiohttp": ("aiohttp", "serve"),
    "apache_beam": ("apache-beam", "beam"),
    "fugashi": ("fugashi", "mecab"),
    "grpc_health": ("grpcio-health-checking", "serve"),
    "grpc_reflection": ("grpcio-reflection", "serve"),
    "huggingface_hub": ("huggingface-hub", "hub"),
    "ipadic": ("ipadic", "mecab"),
    "jieba": ("jieba", "chinese"),
    "matplotlib.figure": ("matplotlib", "report"),
    "mlflow": ("mlflow", "mlflow"),
    "onnxruntime": ("onnxruntime", "onnx"),
    "openvino": ("openvino", "openvino"),
    "optuna": ("optuna", "tune"),
    "prometheus_client": ("prometheus-client", "serve"),
    "tf2onnx": ("tf2onnx", "onnx"),
    "unidic": ("unidic", "mecab"),
    "unidic_lite": ("unidic-lite", "mecab"),
    "usearch.index": ("usearch", "search"),
}
SERVER = tuple(module for module, (_, extra) in PACKAGES.items() if extra == "serve")


def require_packages(name: str, *modules: str):
    """Imports modules that extras install.

    Args:
        name: what requires them, for the message, such as "`bert-tf serve`".
        modules: keys of `PACKAGES`.

    Raises:
        ValueError: one of them, or a package that it imports, is not installed.
    """
    for module in modules:
        package, extra = PACKAGES[module]
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            is_its_own = (error.name or module).partition(".")[0] == module.partition(".")[0]
            missing = package if is_its_own else error.name
            raise ValueError(f"{name} requires {missing}. Install it: pip install 'bert-tf[{extra}]'") from error
