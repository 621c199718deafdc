"""A named pipe in a file's place is refused before anything waits for it."""

import os

import pytest

from bert_tf.serving.exports import open_export
from bert_tf.serving.golden_requests import FILE, read_goldens
from bert_tf.serving.server import metrics
from bert_tf.serving.server.model_config import read_model_config
from bert_tf.serving.server.regular_files import check_regular, folder_fingerprint


@pytest.fixture
def pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def test_a_link_to_a_stored_file_is_one_and_what_is_not_there_is_an_error_of_the_system(tmp_path, pipe):
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "other").symlink_to(pipe)
    check_regular(tmp_path / "link")
    with pytest.raises(ValueError, match="other is a named pipe, and only regular files are read"):
        check_regular(tmp_path / "other")
    with pytest.raises(ValueError, match="is a folder, and only"):
        check_regular(tmp_path)
    with pytest.raises(FileNotFoundError):
        check_regular(tmp_path / "none")


def test_a_pipe_is_no_configuration(pipe):
    with pytest.raises(ValueError, match="`model_config_file` must be .* Cannot use .*pipe is a named pipe, and only"):
        read_model_config(str(pipe))
    with pytest.raises(ValueError, match="`monitoring_config_file` must be a file.*pipe is a named pipe"):
        metrics.read_path(str(pipe))


def test_a_pipe_is_no_file_of_golden_requests_and_none_of_a_model(tmp_path):
    (tmp_path / FILE).parent.mkdir()
    os.mkfifo(tmp_path / FILE)
    with pytest.raises(ValueError, match="does not contain TFRecords .*is a named pipe"):
        read_goldens(str(tmp_path))
    (tmp_path / "saved_model.pb").write_bytes(b"")
    with pytest.raises(ValueError, match="is not a complete SavedModel: .*is a named pipe.* Export it again"):
        open_export(str(tmp_path))


def test_the_fingerprint_tells_errors_and_files_behind_a_linked_folder_too(tmp_path):
    version, stored = tmp_path / "1", tmp_path / "stored"
    version.mkdir(), stored.mkdir()
    (version / "saved_model.pb").touch()
    (version / "variables").symlink_to(stored)
    (version / "loop").symlink_to(version / "loop")
    before = folder_fingerprint(str(version))
    assert len(before) == 2
    (stored / "variables.index").touch()
    assert len(folder_fingerprint(str(version)) - before) == 1
    os.unlink(version / "loop")
    (version / "loop").touch()
    assert before - folder_fingerprint(str(version))
