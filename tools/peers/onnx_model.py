"""ONNX models of one operator or a few, as bytes: the few fields of the format (a protobuf) that they need."""

FLOAT = 1
OPSET = 23
IR_VERSION = 11


def varint(value):
    result = b""
    while value > 127:
        result += bytes([value & 127 | 128])
        value >>= 7
    return result + bytes([value])


def integer(field, value):
    return varint(field << 3) + varint(value)


def chunk(field, value):
    data = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(data)) + data


def value_info(name, shape):
    dims = b"".join(chunk(1, integer(1, size)) for size in shape)
    return chunk(1, name) + chunk(2, chunk(1, integer(1, FLOAT) + chunk(2, dims)))


def node(operator, inputs, attributes, domain, output="y"):
    fields = [chunk(1, name) for name in inputs] + [chunk(2, output), chunk(4, operator)]
    fields += [chunk(5, chunk(1, name) + integer(3, value) + integer(20, 2)) for name, value in attributes.items()]
    return b"".join(fields) + chunk(7, domain)


def initializer(name, array):
    return b"".join(integer(1, size) for size in array.shape) + integer(2, FLOAT) + chunk(8, name) + chunk(9, array.tobytes())


def model(nodes, inputs, output_shape, initializers=()):
    graph = b"".join(chunk(1, each) for each in nodes) + chunk(2, "row")
    graph += b"".join(chunk(5, each) for each in initializers)
    graph += b"".join(chunk(11, value_info(name, shape)) for name, shape in inputs.items())
    graph += chunk(12, value_info("y", output_shape))
    opsets = [chunk(8, chunk(1, "") + integer(2, OPSET)), chunk(8, chunk(1, "com.microsoft") + integer(2, 1))]
    return integer(1, IR_VERSION) + chunk(7, graph) + b"".join(opsets)


def attention(shape, causal):
    """Attention of opset 23 on [B, H, T, D]."""
    names = ["q", "k", "v"]
    return model([node("Attention", names, {"is_causal": int(causal)}, "")], dict.fromkeys(names, shape), shape)


def multi_head_attention(shape, heads, causal):
    """MultiHeadAttention of com.microsoft on [B, T, H·D]."""
    names = ["q", "k", "v"]
    attributes = {"num_heads": heads, "unidirectional": int(causal)}
    return model([node("MultiHeadAttention", names, attributes, "com.microsoft")], dict.fromkeys(names, shape), shape)


def matmul(rows, weight, constant):
    """MatMul of [rows, K] with a weight [K, N]: constant, so that the session packs it once, or an input."""
    inputs = {"a": (rows, weight.shape[0])} | ({} if constant else {"w": weight.shape})
    return model([node("MatMul", ["a", "w"], {}, "")], inputs, (rows, weight.shape[1]),
                 [initializer("w", weight)] * constant)


def layer(shape, weights, heads, causal):
    """A whole self-attention layer on x [B, T, C]: Attention of com.microsoft makes q, k and v from w_in [C, 3·H·D]."""
    attributes = {"num_heads": heads, "unidirectional": int(causal)}
    nodes = [node("Attention", ["x", "w_in", "b_in"], attributes, "com.microsoft", "concat"),
             node("MatMul", ["concat", "w_out"], {}, "", "out"),
             node("Add", ["out", "b_out"], {}, "")]
    return model(nodes, {"x": shape}, shape, [initializer(name, array) for name, array in weights.items()])
