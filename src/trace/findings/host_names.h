// What the name of a host block (an operator, an annotation, a Python function) says that it does.
// Pure; linear in the name.
#pragma once

#include <string_view>

namespace flopwatch::trace {

// Saves, writes, logs or prints: by whole words ("save_checkpoint", "torch/serialization.py(850):
// save"), so that "saved_tensors" and "logits" are none.
bool IsOutputName(std::string_view name);
// Collects Python's garbage: "gc" as a word of its own ("gc.collect", "Python GC"), or CPython's
// gc.collect() as PyTorch's profiler calls it, "<built-in function collect>".
bool IsCollectionName(std::string_view name);

}  // namespace flopwatch::trace
