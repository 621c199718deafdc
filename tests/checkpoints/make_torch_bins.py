"""Makes data/*.bin with torch: python tests/checkpoints/make_torch_bins.py (torch 2.13; run it again after a change).

The expected values are in torch_bin_test.py, written by hand.
"""

import pathlib
from collections import OrderedDict

import torch

DATA = pathlib.Path(__file__).parent / "data"


def tensors():
    """Returns tensors of every type, and views whose elements lie apart, crosswise or shared."""
    count = torch.arange(24, dtype=torch.float32)
    table = count.reshape(4, 6)
    result = OrderedDict(
        (str(dtype).removeprefix("torch."), torch.tensor([[1, 0, 3], [4, 5, 6]]).to(dtype))
        for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)
        + (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)
    )
    result["whole"] = table
    result["transposed"] = table.T
    result["column"] = table[:, 2]
    result["block"] = table[1:3, 2:5]
    result["every_other"] = count[1::2]
    result["expanded"] = count[5:6].expand(3, 1)
    result["scalar"] = torch.tensor(7.5)
    result["empty"] = torch.zeros(0, 3)
    result["parameter"] = torch.nn.Parameter(torch.tensor([1.5, -2.5]))
    result._metadata = OrderedDict({"": {"version": 1}})  # as Module.state_dict() leaves it
    return result


def main():
    DATA.mkdir(exist_ok=True)
    torch.save(tensors(), DATA / "zip.bin")
    torch.save(tensors(), DATA / "stream.bin", _use_new_zipfile_serialization=False)
    torch.save({"state_dict": dict(tensors()), "epoch": 3}, DATA / "nested.bin")


if __name__ == "__main__":
    main()
