// flopwatch calc kernel: what the names of GPU kernels say of their matrix products.
#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "cli/commands/calc.h"
#include "cli/views/columns.h"
#include "efficiency/gemm/kernel_name.h"

namespace flopwatch::cli {
namespace {

namespace gemm = efficiency::gemm;

constexpr uint64_t kMaxNamesBytes = 64ull << 20;
constexpr size_t kMaxNames = 100'000;

// One a line, as profilers print them: what follows a tab is another column of theirs.
Status ReadNames(const std::string& file, std::vector<std::string>* names) {
  FW_ASSIGN_OR_RETURN(const std::string text, ReadFile(file, kMaxNamesBytes));
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find('\n', at);
    if (end == std::string::npos) end = text.size();
    std::string_view line = std::string_view(text).substr(at, end - at);
    line = line.substr(0, line.find('\t'));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(' ') != std::string_view::npos) names->emplace_back(line);
    if (names->size() > kMaxNames) {
      return InvalidArgument("calc kernel: more than {} names; give each once (sort -u)",
                             kMaxNames);
    }
    at = end + 1;
  }
  return absl::OkStatus();
}

StatusOr<std::vector<std::string>> NamesFrom(const std::vector<std::string>& given) {
  if (given.size() > 1 || (given.size() == 1 && given[0] != "-")) return given;
  if (given.empty() && isatty(STDIN_FILENO) != 0) {
    return InvalidArgument(
        "calc kernel: no kernel name; give NAME in quotes, or names on standard input, one a "
        "line");
  }
  std::vector<std::string> names;
  FW_RETURN_IF_ERROR(ReadNames("-", &names));
  if (names.empty()) {
    return InvalidArgument(
        "calc kernel: standard input holds no kernel name; give NAME in quotes, or one a line");
  }
  return names;
}

Table KernelTable(const std::vector<std::string>& names) {
  Table table;
  table.columns = ColumnsOf(
      Column{"name", "KERNEL"}, Column{"family", "FAMILY"}, Column{"precision", "PRECISION"},
      Column{"tensor_core", "TENSOR"}, Column{"tile_m", "TILE M"}, Column{"tile_n", "TILE N"},
      Column{"tile_k", "TILE K"}, Column{"stages", "STAGES"}, Column{"cluster_m", "CLUSTER M"},
      Column{"cluster_n", "CLUSTER N"}, Column{"split_k", "SPLIT K"},
      Column{"confidence", "CONFIDENCE"}, Column{"operation", "OPERATION"},
      Column{"tile_axes", "TILE AXES"}, Column{"operand_a", "A"}, Column{"operand_b", "B"},
      Column{"accumulate", "ACCUMULATE"}, Column{"output", "OUTPUT"}, Column{"layout", "LAYOUT"},
      Column{"arch", "SM"}, Column{"two_cta", "2CTA"}, Column{"tile_spans_pair", "TILE OF PAIR"},
      Column{"sliced_k", "SLICED K"}, Column{"head_dim", "HEAD DIM"}, Column{"bias", "BIAS"},
      Column{"block_scaling", "SCALING"}, Column{"signature", "SIGNATURE"}, Column{"cut", "CUT"});
  size_t unknown = 0, without_tile = 0;
  for (const std::string& name : names) {
    const gemm::KernelInfo i = gemm::DecodeKernelName(name);
    unknown += i.family == gemm::Family::kUnknown;
    without_tile += i.family != gemm::Family::kUnknown && !i.tile_m;
    AddRow(&table, Printable(name, gemm::kMaxKernelNameBytes),
           std::string(gemm::FamilyName(i.family)), TextCell(gemm::PrecisionOf(i)),
           CellOf(i.tensor_core), CellOf(i.tile_m), CellOf(i.tile_n), CellOf(i.tile_k),
           CellOf(i.stages), CellOf(i.cluster_m), CellOf(i.cluster_n), CellOf(i.split_k),
           std::string(gemm::NameConfidenceName(i.confidence)),
           TextCell(gemm::OperationName(i.operation)), TextCell(gemm::TileAxesName(i.axes)),
           TextCell(gemm::NumberTypeName(i.a)), TextCell(gemm::NumberTypeName(i.b)),
           TextCell(gemm::NumberTypeName(i.accumulate)), TextCell(gemm::NumberTypeName(i.output)),
           TextCell(Printable(i.layout)), CellOf(i.arch), i.two_cta, i.tile_spans_pair,
           CellOf(i.sliced_k), CellOf(i.head_dim), i.bias, TextCell(Printable(i.scaling)),
           TextCell(Printable(i.signature)), i.cut);
  }
  if (unknown > 0) {
    table.notes.push_back(fmt::format("{} of {} names are of no known GEMM or attention family",
                                      unknown, names.size()));
  }
  if (without_tile > 0) {
    table.notes.push_back(fmt::format(
        "{} names show no tile: absent is not visible, nothing is filled in", without_tile));
  }
  return table;
}

Status RunKernel(Context& context, const std::vector<std::string>& given) {
  FW_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesFrom(given));
  Table table = KernelTable(names);
  if (context.for_people()) {
    table.notes.push_back(
        "tile M runs along BLAS m (PyTorch's N) where TILE AXES says blas; -o json has all fields");
  }
  return context.Write(table);
}

}  // namespace

Args AddCalcKernel(Args calc, Run* run) {
  auto names = std::make_shared<std::vector<std::string>>();
  Args sub = calc.Command(
      "kernel",
      "What kernel names say: family, types, tile, cluster, split-K, tensor cores or not");
  sub.Option("NAME", *names, "Kernel names as a profiler prints them; none, or -, reads lines");
  sub.Footer(
      "Examples:\n"
      "  flopwatch calc kernel nvjet_sm90_tst_128x256_64x4_2x1_v_bz_coopA_TNT\n"
      "  flopwatch calc kernel -o json 'void "
      "cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_8x5_tn_align1>'\n"
      "  cut -f1 names.txt | sort -u | flopwatch calc kernel -o csv > kernels.csv");
  *run = [names](Context& context) { return RunKernel(context, *names); };
  return sub;
}

}  // namespace flopwatch::cli
