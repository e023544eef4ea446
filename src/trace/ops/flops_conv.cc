// Convolutions. Weight [Cout, Cin/groups, k...]; transposed [Cin, Cout/groups, k...]: the groups
// are in the weight already.
//   forward     2 * B * Cout * prod(output spatial) * Cin/groups * prod(k)
//   transposed  the same with the spatial size of the input
//   backward    each of grad_input and grad_weight as much as forward (the bias nothing)
#include <algorithm>

#include "trace/ops/formulas.h"

namespace flopwatch::trace {
namespace {

constexpr std::string_view kNoConvolution = "the recorded sizes do not fit a convolution";

// Where a variant keeps its arguments.
struct Arguments {
  int stride = -1, padding = -1, dilation = -1, transposed = -1;
};

struct Spatial {
  int64_t batch = 1;
  std::span<const int64_t> sizes;
};

// A tensor [B, C, spatial...], or without the batch.
std::optional<Spatial> SpatialOf(const Shape& shape, const Shape& weight) {
  if (weight.size() < 3 || weight.size() > 5) return std::nullopt;
  if (shape.size() == weight.size()) return Spatial{shape[0], std::span(shape).subspan(2)};
  if (shape.size() + 1 == weight.size()) return Spatial{1, std::span(shape).subspan(1)};
  return std::nullopt;
}

// 2 * B * prod(spatial) * prod(weight).
std::optional<int64_t> CountConv(const Spatial& s, const Shape& weight) {
  const auto spatial = ProductOf(s.sizes), taps = ProductOf(weight);
  return spatial && taps ? ProductOf({2, s.batch, *spatial, *taps}) : std::nullopt;
}

// The count that two recorded sizes settle, those of arguments `a` and `b`.
StatusOr<FlopsCount> CountSizes(const Shape& shape, const Shape& weight, int a, int b) {
  const std::optional<Spatial> spatial = SpatialOf(shape, weight);
  if (!spatial) return NotCounted(kNoConvolution);
  const auto flops = CountConv(*spatial, weight);
  return RangeCount(flops, flops, "", a, b);
}

// One value an axis, from a list of that many or of one.
std::optional<int64_t> Axis(const std::optional<Shape>& list, size_t axis, size_t axes) {
  if (!list || (list->size() != axes && list->size() != 1)) return std::nullopt;
  return (*list)[list->size() == 1 ? 0 : axis];
}

StatusOr<FlopsCount> Forward(const OpInputs& in, const Arguments& at) {
  const Shape *x = in.tensor(0), *w = in.tensor(1);
  if (x == nullptr || w == nullptr) return NotCounted(kSizesNotRecorded);
  const std::optional<Spatial> input = SpatialOf(*x, *w);
  if (!input) return NotCounted(kNoConvolution);
  std::optional<bool> transposed = false;
  if (at.transposed >= 0) transposed = in.boolean(static_cast<size_t>(at.transposed));
  if (transposed.value_or(false)) {
    const auto flops = CountConv(*input, *w);
    return RangeCount(flops, flops, "", 0, 1);
  }
  Shape output;
  const std::string_view padding_text = in.text(static_cast<size_t>(at.padding));
  const auto stride = in.integers(static_cast<size_t>(at.stride)),
             padding = in.integers(static_cast<size_t>(at.padding)),
             dilation = in.integers(static_cast<size_t>(at.dilation));
  for (size_t axis = 0; axis < input->sizes.size(); ++axis) {
    const auto s = Axis(stride, axis, input->sizes.size()),
               p = Axis(padding, axis, input->sizes.size()),
               d = Axis(dilation, axis, input->sizes.size());
    const bool same = padding_text == "same", valid = padding_text == "valid";
    if (!transposed || !s || !d || (!p && !same && !valid))
      return NotCounted("stride, padding and dilation were not recorded");
    if (*s < 1 || *d < 1 || *s > kMaxSize || *d > kMaxSize || (p && (*p < 0 || *p > kMaxSize)))
      return NotCounted(kNoConvolution);
    const int64_t kernel = (*w)[axis + 2], size = input->sizes[axis];
    if (same) {
      output.push_back(size);
      continue;
    }
    const __int128 reach = static_cast<__int128>(size) + 2 * static_cast<__int128>(p.value_or(0)) -
                           static_cast<__int128>(*d) * (kernel - 1) - 1;
    if (reach < 0) return NotCounted(kNoConvolution);
    output.push_back(static_cast<int64_t>(reach / *s) + 1);
  }
  const auto flops = CountConv({input->batch, output}, *w);
  return RangeCount(flops, flops, "", 0, 1);
}

// The forward count of a backward operator, from the gradient of the output: no stride needed.
// Without the flag the two readings of a weight are both possible.
struct ForwardRange {
  std::optional<int64_t> low, high;
};
std::optional<ForwardRange> ForwardOf(const Shape& grad_output, const Shape& input,
                                      const Shape& weight, std::optional<bool> transposed) {
  const std::optional<Spatial> out = SpatialOf(grad_output, weight), in = SpatialOf(input, weight);
  if (!out || !in) return std::nullopt;
  const auto plain = CountConv(*out, weight), turned = CountConv(*in, weight);
  if (transposed) return *transposed ? ForwardRange{turned, turned} : ForwardRange{plain, plain};
  // The channels tell where they differ.
  const auto channels = [&](const Shape& shape) {
    return shape[shape.size() == weight.size() ? 1 : 0];
  };
  if (channels(grad_output) == weight[0] && channels(input) != weight[0])
    return ForwardRange{plain, plain};
  if (channels(input) == weight[0] && channels(grad_output) != weight[0])
    return ForwardRange{turned, turned};
  if (!plain || !turned) return std::nullopt;
  return ForwardRange{std::min(*plain, *turned), std::max(*plain, *turned)};
}

StatusOr<FlopsCount> Backward(const OpInputs& in, size_t grad_output, size_t input, size_t weight,
                              int transposed, int mask) {
  const Shape *g = in.tensor(grad_output), *x = in.tensor(input), *w = in.tensor(weight);
  if (g == nullptr || x == nullptr || w == nullptr) return NotCounted(kSizesNotRecorded);
  const auto forward = ForwardOf(
      *g, *x, *w,
      transposed < 0 ? std::optional(false) : in.boolean(static_cast<size_t>(transposed)));
  if (!forward || !forward->low || !forward->high) return NotCounted(kNoConvolution);
  const auto wanted = in.booleans(static_cast<size_t>(mask));
  int64_t least = 1, most = 2;
  std::string_view convention = "which gradients were asked for was not recorded: one or both";
  if (wanted && wanted->size() >= 2) {
    least = most = int64_t{(*wanted)[0]} + int64_t{(*wanted)[1]};
    if (most == 0) return NotCounted("only the gradient of the bias: no product");
    convention = "";
  }
  return RangeCount(ProductOf({*forward->low, least}), ProductOf({*forward->high, most}),
                    convention, static_cast<int>(grad_output), static_cast<int>(weight));
}

template <int Stride, int Padding, int Dilation, int Transposed = -1>
StatusOr<FlopsCount> Conv(const OpInputs& in, const OpInputs*) {
  return Forward(in, {Stride, Padding, Dilation, Transposed});
}

StatusOr<FlopsCount> Transposed(const OpInputs& in, const OpInputs*) {
  const Shape *x = in.tensor(0), *w = in.tensor(1);
  if (x == nullptr || w == nullptr) return NotCounted(kSizesNotRecorded);
  return CountSizes(*x, *w, 0, 1);
}

// convolution_backward(grad_output, input, weight, bias_sizes, stride, padding, dilation,
// transposed, output_padding, groups, mask)
StatusOr<FlopsCount> ConvolutionBackward(const OpInputs& in, const OpInputs*) {
  return Backward(in, 0, 1, 2, 7, 10);
}
// cudnn_convolution_backward(self, grad_output, weight, padding, stride, dilation, groups, ...,
// mask) until 2021.
StatusOr<FlopsCount> CudnnBackward(const OpInputs& in, const OpInputs*) {
  return Backward(in, 1, 0, 2, -1, 10);
}

// cudnn_convolution_backward_input(self_size, grad_output, weight, ...): the sizes of the gradient
// and the weight settle it.
StatusOr<FlopsCount> BackwardInput(const OpInputs& in, const OpInputs*) {
  const Shape *g = in.tensor(1), *w = in.tensor(2);
  if (g == nullptr || w == nullptr) return NotCounted(kSizesNotRecorded);
  return CountSizes(*g, *w, 1, 2);
}

// cudnn_convolution_backward_weight(weight_size, grad_output, self, ...): the weight's size is a
// list of numbers; it stands with the operator around it.
StatusOr<FlopsCount> BackwardWeight(const OpInputs& in, const OpInputs* parent) {
  const Shape* const g = in.tensor(1);
  const Shape* const w = parent == nullptr ? nullptr : parent->tensor(2);
  if (g == nullptr || w == nullptr) return NotCounted("the size of the weight was not recorded");
  return CountSizes(*g, *w, 1, 2);
}

constexpr FlopsRule kConvRules[] = {
    {"aten::conv1d", "conv", Conv<3, 4, 5>},
    {"aten::conv2d", "conv", Conv<3, 4, 5>},
    {"aten::conv3d", "conv", Conv<3, 4, 5>},
    {"aten::convolution", "conv", Conv<3, 4, 5, 6>},
    {"aten::_convolution", "conv", Conv<3, 4, 5, 6>},
    {"aten::convolution_overrideable", "conv", Conv<3, 4, 5, 6>},
    {"aten::cudnn_convolution", "conv", Conv<3, 2, 4>},
    {"aten::cudnn_convolution_relu", "conv", Conv<3, 4, 5>},
    {"aten::cudnn_convolution_add_relu", "conv", Conv<5, 6, 7>},
    {"aten::miopen_convolution", "conv", Conv<4, 3, 5>},
    {"aten::miopen_depthwise_convolution", "conv", Conv<4, 3, 5>},
    {"aten::_conv_depthwise2d", "conv", Conv<4, 5, 6>},
    {"aten::conv_depthwise3d", "conv", Conv<4, 5, 6>},
    {"aten::conv_transpose1d", "conv_transpose", Transposed},
    {"aten::conv_transpose2d", "conv_transpose", Transposed},
    {"aten::conv_transpose3d", "conv_transpose", Transposed},
    {"aten::cudnn_convolution_transpose", "conv_transpose", Transposed},
    {"aten::miopen_convolution_transpose", "conv_transpose", Transposed},
    {"aten::convolution_backward", "conv_backward", ConvolutionBackward},
    {"aten::convolution_backward_overrideable", "conv_backward", ConvolutionBackward},
    {"aten::cudnn_convolution_backward", "conv_backward", CudnnBackward},
    {"aten::cudnn_convolution_backward_input", "conv_backward_input", BackwardInput},
    {"aten::cudnn_convolution_backward_weight", "conv_backward_weight", BackwardWeight, true}};

}  // namespace

std::span<const FlopsRule> ConvolutionRules() { return kConvRules; }

}  // namespace flopwatch::trace
