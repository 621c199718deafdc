"""Against torch Transformers and PEFT: pruned heads, and adapters both ways. All slow."""

import json
import os
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import bert_tf
from bert_tf.checkpoints import adapters, edit_model
from bert_tf.checkpoints.model_directory import ModelDirectory, read_model_directory, write_edited_model
from bert_tf.checkpoints.names import family_mappings
from tests import other_envs, tiny
from tests.scripts import run

pytestmark = pytest.mark.slow

IDS = np.array([[2, 5, 9, 14, 3], [2, 6, 7, 11, 3]], np.int32)
TINY = """
import sys, torch, transformers, numpy as np
from safetensors.numpy import save_file
folder, out = sys.argv[1:3]
ids = torch.tensor([[2, 5, 9, 14, 3], [2, 6, 7, 11, 3]])
torch.manual_seed(0)
def randomized(model):
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.add_(0.2 * torch.randn(tensor.shape))
    return model.eval()
"""
MAKE = (
    TINY
    + """
config = transformers.BertConfig(vocab_size=28, hidden_size=32, num_hidden_layers=3, num_attention_heads=4,
                                 intermediate_size=48, max_position_embeddings=32, num_labels=3)
model = randomized(transformers.BertForSequenceClassification(config))
model.save_pretrained(folder)
with open(f"{folder}/vocab.txt", "w") as file:
    file.write(sys.argv[3])
model.prune_heads({0: [1, 3], 2: [0]})
save_file({"logits": model(ids).logits.detach().numpy()}, out)
"""
)
LOAD = (
    TINY
    + """
model, report = transformers.BertForSequenceClassification.from_pretrained(folder, output_loading_info=True)
assert not any(report[name] for name in ("missing_keys", "unexpected_keys", "mismatched_keys")), report
assert model.bert.encoder.layer[0].attention.self.num_attention_heads == 2
save_file({"logits": model.eval()(ids).logits.detach().numpy()}, out)
"""
)
USE_OURS = (
    TINY
    + """
import peft
base = transformers.BertForSequenceClassification.from_pretrained(folder)
model = peft.PeftModel.from_pretrained(base, sys.argv[3]).eval()
alone, whole = set(peft.utils.load_peft_weights(sys.argv[3])), set(peft.get_peft_model_state_dict(model))
assert alone == whole, alone ^ whole
save_file({"logits": model(ids).logits.detach().numpy()}, out)
"""
)
MAKE_PEFTS = (
    TINY
    + """
import peft
base = transformers.BertForSequenceClassification.from_pretrained(folder)
config = peft.LoraConfig(task_type="SEQ_CLS", r=3, lora_alpha=5, target_modules=["query", "value", "output.dense"])
model = randomized(peft.get_peft_model(base, config))
model.save_pretrained(sys.argv[3])
state = {name.replace("base_model.model.", "").replace(".base_layer", ""): tensor
         for name, tensor in model.state_dict().items() if "lora_" not in name and "modules_to_save" not in name}
state = {name.replace(".original_module", ""): tensor for name, tensor in state.items()}
plain = transformers.BertForSequenceClassification.from_pretrained(folder)
plain.load_state_dict(state)
plain.save_pretrained(folder)
save_file({"logits": model(ids).logits.detach().numpy()}, out)
"""
)


def _torch(code, *arguments):
    """Runs it, and returns the logits that it wrote to its second argument."""
    other_envs.run(other_envs.torch_python(), code, *arguments)
    return load_file(arguments[1])["logits"]


@pytest.fixture
def base(tmp_path):
    """A directory of torch's, three layers of four heads; `pruned.safetensors` beside it is of its pruned self."""
    (tmp_path / "base").mkdir()
    vocab = "".join(f"{piece}\n" for piece in tiny.VOCAB)
    _torch(MAKE, tmp_path / "base", tmp_path / "pruned.safetensors", vocab)
    return tmp_path / "base"


@pytest.fixture
def peft():
    try:
        other_envs.run(other_envs.torch_python(), "import peft")
    except AssertionError as error:
        pytest.skip(f"needs peft beside torch in the environment of BERT_TF_TORCH_PYTHON: {str(error)[-200:]}")


def _logits(folder):
    bert = bert_tf.load(folder)
    return bert.head(bert.encoder({"input_ids": IDS})["pooled_output"]).numpy()


def test_torch_prunes_the_same_heads(base, tmp_path):
    before = read_model_directory(os.fspath(base))
    arrays, config = edit_model.prune_heads(before.arrays, before.config, {0: [1, 3], 2: [0]})
    ours = tmp_path / "ours"
    write_edited_model(ModelDirectory("", arrays, config, before.tokenizer), os.fspath(ours))
    expected = load_file(tmp_path / "pruned.safetensors")["logits"]
    np.testing.assert_allclose(_logits(ours), expected, atol=1e-5)
    theirs, weight_mapping = tmp_path / "theirs", family_mappings.hugging_face()
    theirs.mkdir()
    values = json.loads((base / "config.json").read_text(encoding="utf-8"))
    values["pruned_heads"] = config.to_dict()["pruned_heads"]
    (theirs / "config.json").write_text(json.dumps(values), encoding="utf-8")
    turned = {path: array.T if weight_mapping.transposed(path) else array for path, array in arrays.items()}
    named = {weight_mapping.from_ours(path): np.ascontiguousarray(array) for path, array in turned.items()}
    save_file(named, theirs / "model.safetensors", {"format": "pt"})
    shutil.copy(base / "vocab.txt", theirs)
    np.testing.assert_allclose(_logits(theirs), expected, atol=1e-5)
    np.testing.assert_allclose(_torch(LOAD, theirs, tmp_path / "loaded.safetensors"), expected, atol=1e-5)


def test_peft_loads_the_adapters_of_a_run(base, peft, tmp_path):
    train = tiny.write_tsv(tmp_path / "train.tsv", [*tiny.texts(32, names=("a", "b")), ("the film", "c")])
    run([f"--init_checkpoint={base}", f"--train_file={train}", "--do_train", "--train_batch_size=8", "--lora_rank=2",
         "--lora_alpha=3", "--lora_targets=query,key,output", "--learning_rate=0.01", "--max_seq_length=20",
         "--num_train_epochs=2", f"--output_dir={tmp_path}/run"])  # fmt: skip
    theirs = _torch(USE_OURS, base, tmp_path / "peft.safetensors", tmp_path / "run" / "adapter")
    ours = _logits(tmp_path / "run")
    assert np.abs(ours - _logits(base)).max() > 0.01
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_an_adapter_of_pefts_is_merged(base, peft, tmp_path):
    (tmp_path / "adapter").mkdir()
    expected = _torch(MAKE_PEFTS, base, tmp_path / "peft.safetensors", tmp_path / "adapter")
    merged = adapters.merge_adapters(read_model_directory(os.fspath(base)), os.fspath(tmp_path / "adapter"))
    write_edited_model(merged, os.fspath(tmp_path / "merged"))
    np.testing.assert_allclose(_logits(tmp_path / "merged"), expected, atol=1e-5)
