"""The same model makes the same bytes: what TensorFlow numbers by what the process did before is numbered anew."""

import hashlib
import os
import re

from tensorflow.core.protobuf import fingerprint_pb2, saved_model_pb2
from tensorflow.python.saved_model.pywrap_saved_model import fingerprinting

_NUMBER = re.compile(r"_(\d+)$")
_UNUSED = re.compile(r"_\d+(___redundant_placeholder\d+)$")  # what a loop's condition is given and does not read
_OWN_GRADIENT = b"CustomGradient-"  # of tf.custom_gradient, whose function an export does not have


def renumber_functions(saved: saved_model_pb2.SavedModel):
    """Gives every function of the graphs a number by its place among them instead of one that the process counted."""
    for graph in saved.meta_graphs:
        library = graph.graph_def.library
        names = _new_names(function.signature.name for function in library.function)
        _rename_in_nodes(graph.graph_def.node, names)
        for function in library.function:
            function.signature.name = names[function.signature.name]
            _rename_unused(function.signature.input_arg)
            _rename_in_nodes(function.node_def, names)
            _rename_in_attributes(function.attr, names)
            _number_captures(function.arg_attr)
        for gradient in library.gradient:
            gradient.function_name = names[gradient.function_name]
            gradient.gradient_func = names[gradient.gradient_func]
        _sort(library.function, lambda function: function.signature.name)
        _rename_in_objects(graph.object_graph_def, names)


def write_fingerprint(directory: str):
    """Writes `fingerprint.pb` of the SavedModel in `directory` anew, its identifier made of its hashes.

    `tf.saved_model.save` writes one before the file is final, with an identifier by chance.
    """
    path = os.path.join(directory, "fingerprint.pb")
    fingerprint = fingerprint_pb2.FingerprintDef.FromString(fingerprinting.CreateFingerprintDef(directory))
    fingerprint.ClearField("uuid")
    digest = hashlib.sha256(fingerprint.SerializeToString(deterministic=True)).digest()
    fingerprint.uuid = str(int.from_bytes(digest[:16], "big"))
    with open(path, "wb") as file:
        file.write(fingerprint.SerializeToString(deterministic=True))


def _new_names(names):
    """Returns {name: new name}: the numbers at their ends rise in the order in which the functions were made."""
    numbered = {name: int(match[1]) for name in names if (match := _NUMBER.search(name))}
    order = sorted(numbered, key=lambda name: (numbered[name], name))
    new = {name: _NUMBER.sub(f"_{place}", name) for place, name in enumerate(order)}
    return _Names(new)


class _Names(dict):
    """A name that is not to be changed stays."""

    def __missing__(self, name):
        return name


def _rename_in_nodes(nodes, names):
    for node in nodes:
        if node.op in names:
            node.op = names[node.op]
        if "_gradient_op_type" in node.attr and node.attr["_gradient_op_type"].s.startswith(_OWN_GRADIENT):
            del node.attr["_gradient_op_type"]
        _rename_in_attributes(node.attr, names)


def _rename_in_attributes(attributes, names):
    for value in attributes.values():
        kind = value.WhichOneof("value")
        if kind == "func":
            value.func.name = names[value.func.name]
            _rename_in_attributes(value.func.attr, names)
        elif kind == "s" and value.s.decode("latin-1") in names:  # how a gradient's function is named
            value.s = names[value.s.decode("latin-1")].encode()
        elif kind == "list":
            for function in value.list.func:
                function.name = names[function.name]


def _rename_unused(arguments):
    """Takes a function's number out of the names of arguments that no node of it reads."""
    for argument in arguments:
        argument.name = _UNUSED.sub(r"\1", argument.name)


def _number_captures(arguments):
    """Names the arguments that stand for weights by their place; TensorFlow names them by an address of its own."""
    for place, argument in arguments.items():
        name = argument.attr.get("_user_specified_name")
        if name is not None and name.s.isdigit():
            name.s = str(place).encode()


def _rename_in_objects(objects, names):
    functions = {name: _copy(each) for name, each in objects.concrete_functions.items()}
    objects.concrete_functions.clear()  # a new name may be another function's old one
    for name, each in functions.items():
        objects.concrete_functions[names[name]].CopyFrom(each)
    for node in objects.nodes:
        kind = node.WhichOneof("kind")
        if kind == "function":
            node.function.concrete_functions[:] = [names[name] for name in node.function.concrete_functions]
        elif kind == "bare_concrete_function":
            concrete = node.bare_concrete_function
            concrete.concrete_function_name = names[concrete.concrete_function_name]


def _sort(repeated, key):
    ordered = [_copy(each) for each in sorted(repeated, key=key)]
    del repeated[:]
    repeated.extend(ordered)


def _copy(message):
    return type(message).FromString(message.SerializeToString())
