"""Hides the token counts of signatures from clients: they stay in the graph, where a server can fetch them."""

from tensorflow.core.protobuf import meta_graph_pb2

from bert_tf.utils.names import TOKEN_COUNTS


def hide_token_counts(graph: meta_graph_pb2.MetaGraphDef):
    """Removes the output `TOKEN_COUNTS` of every signature, and records its tensors in the collection of that name.

    The tokenization of a request is what its counts are computed from, so they cost next to nothing. Who does not
    fetch them does not compute them.

    Args:
        graph: graph of a SavedModel as `tf.saved_model.save` writes it; changed in place.
    """
    nodes = {node.name: node for node in graph.graph_def.node}
    for signature in graph.signature_def.values():
        if TOKEN_COUNTS in signature.outputs:
            tensor = signature.outputs.pop(TOKEN_COUNTS).name
            graph.collection_def[TOKEN_COUNTS].node_list.value.append(tensor)
            _hide_from_loaders(graph, nodes[tensor.partition(":")[0]].attr["f"].func)


def _hide_from_loaders(graph, call):
    """Removes the output from the function that `tf.saved_model.load` returns; `call` then calls a copy that has it.

    The function of a signature only calls another, so its copy is small.
    """
    function = next(each for each in graph.graph_def.library.function if each.signature.name == call.name)
    copy = graph.graph_def.library.function.add()
    copy.CopyFrom(function)
    copy.signature.name = call.name = f"{function.signature.name}_with_counts"
    fields = graph.object_graph_def.concrete_functions[function.signature.name].output_signature.dict_value.fields
    index = sorted(fields).index(TOKEN_COUNTS)  # the order in which TensorFlow flattens a dict
    del function.ret[function.signature.output_arg[index].name]
    del function.signature.output_arg[index]
    fields.pop(TOKEN_COUNTS)
