"""The classes that Keras finds after `import bert_tf`."""

import ast
import subprocess
import sys

import pytest

from bert_tf.utils import keras_names
from tests.conftest import ROOT

_FAKE = """
from types import SimpleNamespace
known = {}
saving = SimpleNamespace(get_custom_objects=lambda: known)
"""


def _registered():
    """Returns (module, class) of every class that is registered with Keras."""
    for path in (ROOT / "bert_tf").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "register_keras_serializable" in text else ():
            if isinstance(node, ast.ClassDef) and "register_keras_serializable" in map(_name_of, node.decorator_list):
                yield ".".join(path.relative_to(ROOT / "bert_tf").with_suffix("").parts), node.name


def _name_of(decorator):
    function = getattr(decorator, "func", decorator)
    return getattr(function, "attr", getattr(function, "id", None))


def test_the_table_has_every_class():
    assert {(module, name) for module, names in keras_names.CLASSES.items() for name in names} == set(_registered())


@pytest.mark.parametrize("imports", ["import bert_tf, keras", "import keras, bert_tf", "import bert_tf, keras.saving"])
def test_keras_is_told_whichever_comes_first(imports, tmp_path):
    (tmp_path / "keras").mkdir()
    (tmp_path / "keras" / "__init__.py").write_text(_FAKE, encoding="utf-8")
    (tmp_path / "keras" / "saving.py").write_text("from keras import known\nget_custom_objects = lambda: known\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {imports}; import keras; print(*keras.known)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    expected = {f"bert_tf>{name}" for names in keras_names.CLASSES.values() for name in names}
    assert set(done.stdout.split()) == expected


def test_a_stand_in_makes_the_class_itself():
    import keras

    known = dict(keras.saving.get_custom_objects())
    stand_in = keras_names._StandIn("models.layers", "LayerNorm")
    layer = stand_in.from_config({"epsilon": 0.5})
    assert type(layer).__name__ == "LayerNorm" and layer.epsilon == 0.5
    assert set(known) >= {"bert_tf>LayerNorm", "bert_tf>HubLayer"}
