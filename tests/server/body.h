// Exposition text of a small exporter, written line by line as dcgm-exporter does.
#ifndef FLOPWATCH_TESTS_SERVER_BODY_H_
#define FLOPWATCH_TESTS_SERVER_BODY_H_

#include <fmt/format.h>

#include <string>

namespace flopwatch::server {

inline constexpr char kA100[] = "NVIDIA A100-SXM4-40GB";
inline constexpr char kH100[] = "NVIDIA H100 80GB HBM3";

class Body {
 public:
  // Labels that every following line carries.
  Body& Gpu(int index, std::string_view uuid, std::string_view model = kA100,
            std::string_view more = "") {
    labels_ =
        fmt::format(R"(gpu="{}",UUID="{}",device="nvidia{}",modelName="{}",Hostname="node1"{}{})",
                    index, uuid, index, model, more.empty() ? "" : ",", more);
    return *this;
  }
  Body& Line(std::string_view metric, double value, std::string_view more = "") {
    text_ +=
        fmt::format("{}{{{}{}{}}} {}\n", metric, labels_, more.empty() ? "" : ",", more, value);
    return *this;
  }
  Body& Tensor(double v, std::string_view more = "") {
    return Line("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", v, more);
  }
  Body& Clock(double mhz, std::string_view more = "") {
    return Line("DCGM_FI_DEV_SM_CLOCK", mhz, more);
  }
  Body& Util(double percent) { return Line("DCGM_FI_DEV_GPU_UTIL", percent); }
  Body& Power(double w) { return Line("DCGM_FI_DEV_POWER_USAGE", w); }
  Body& Energy(double mj) { return Line("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", mj); }
  Body& Raw(std::string_view text) {
    text_ += text;
    return *this;
  }
  operator std::string_view() const { return text_; }

 private:
  std::string labels_, text_;
};

}  // namespace flopwatch::server

#endif  // FLOPWATCH_TESTS_SERVER_BODY_H_
