"""How run_classifier.py and run_squad.py define their flags until they too are programs of `bert_tf.programs`."""

import types

from absl import app, flags

from bert_tf.flags import classifier, devices, fine_tuning, model, squad, training
from bert_tf.programs import devices as devices_of_programs
from bert_tf.programs import program
from bert_tf.settings import Settings, with_default

FLAGS = flags.FLAGS
_TABLE = {}


def _define(table):
    new = [flag for flag in table if flag.name not in _TABLE]
    program.define(FLAGS, new)
    _TABLE.update({flag.name: flag for flag in new})


def define_model(max_seq_length=128):
    _define(with_default(model.MODEL, max_seq_length=max_seq_length))


def define_run():
    _define(training.RUN)


def define_classifier_data():
    _define((*classifier.GLUE_TASK, *classifier.COLUMNS, *fine_tuning.FILES, fine_tuning.STOPPING[0]))


def define_layers():
    _define(fine_tuning.LAYERS)


def define_loss():
    _define((*classifier.PROBLEM, *fine_tuning.LOSS, *fine_tuning.STOPPING, *fine_tuning.CALIBRATION))


def define_long_text():
    _define(fine_tuning.LONG_TEXT)


def define_export(model=False):
    from bert_tf.flags import model as models

    _define(models.EXPORT)


def define_google_tpu():
    _define(devices.GOOGLE_TPU)


def define_squad():
    _define(squad.SQUAD)


def settings() -> Settings:
    return program.read_settings(FLAGS, _TABLE)


def apply_run_flags():
    return devices_of_programs.prepare(settings())


def run(main):
    script = types.SimpleNamespace(FLAGS=tuple(_TABLE.values()), main=lambda settings: main())
    for name in _TABLE:
        FLAGS.register_key_flag_for_module(__import__("sys").argv[0], FLAGS[name])
    app.run(lambda argv: program._run_main(script, settings(), argv[1:]))
