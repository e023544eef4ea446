// The members of an event and of its "args" that are read, by name. Internal to import/.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace flopwatch::trace {

enum class EventKey : uint8_t { kPh, kId, kTs, kCat, kPid, kTid, kDur, kName, kArgs, kCount };

// Kernels carry their launch's shape, copies their bytes, operators what was recorded of their
// inputs, record_param_comms and NCCL's kernels the collective. ROCm gives no blocks, warps or
// occupancy.
enum class Arg : uint8_t {
  kExternalId,
  kDevice,
  kContext,
  kStream,
  kCorrelation,
  kRegisters,
  kSharedMemory,
  kBlocksPerSm,
  kWarpsPerSm,
  kGrid,
  kBlock,
  kOccupancy,
  kGraphId,
  kGraphNodeId,
  kBytes,
  kBandwidth,
  kSequenceNumber,
  kForwardThread,
  kInputDims,
  kInputTypes,
  kInputStrides,
  kConcreteInputs,
  kCallStack,
  kModuleHierarchy,
  kCollectiveName,
  kDtype,
  kInElements,
  kOutElements,
  kGroupSize,
  kGroupName,
  kGroupDescription,
  kGroupRanks,
  kSeq,
  kCommsId,
  kSourceRank,
  kDestinationRank,
  kWaitOnStream,
  kWaitOnEvent,
  kWaitOnRecord,
  kPythonId,
  kPythonParent,
  kPythonModule,
  kAddress,
  kMemoryBytes,
  kDeviceType,
  kDeviceId,
  kTotalAllocated,
  kTotalReserved,
  kLabels,
  kName,
  kSize,
  kCount,
};
static_assert(static_cast<int>(Arg::kCount) <= 64, "one bit each");

// Gives kCount for a name that is not read.
inline EventKey EventKeyOf(std::string_view key) {
  const auto is = [&](const char* text, size_t n) { return std::memcmp(key.data(), text, n) == 0; };
  switch (key.size()) {
    case 2:
      if (is("ts", 2)) return EventKey::kTs;
      if (is("ph", 2)) return EventKey::kPh;
      if (is("id", 2)) return EventKey::kId;
      break;
    case 3:
      if (is("cat", 3)) return EventKey::kCat;
      if (is("pid", 3)) return EventKey::kPid;
      if (is("tid", 3)) return EventKey::kTid;
      if (is("dur", 3)) return EventKey::kDur;
      break;
    case 4:
      if (is("name", 4)) return EventKey::kName;
      if (is("args", 4)) return EventKey::kArgs;
      break;
    default:
      break;
  }
  return EventKey::kCount;
}

// A table as a switch: one comparison of the length, then of the few names that have it.
inline Arg ArgOf(std::string_view key) {
  const auto is = [&](std::string_view text) {
    return std::memcmp(key.data(), text.data(), text.size()) == 0;
  };
  switch (key.size()) {
    case 3:
      if (is("Seq")) return Arg::kSeq;
      break;
    case 4:
      if (is("grid")) return Arg::kGrid;
      if (is("name")) return Arg::kName;
      if (is("Addr")) return Arg::kAddress;
      if (is("size")) return Arg::kSize;
      break;
    case 5:
      if (is("block")) return Arg::kBlock;
      if (is("bytes")) return Arg::kBytes;
      if (is("dtype")) return Arg::kDtype;
      if (is("Bytes")) return Arg::kMemoryBytes;
      break;
    case 6:
      if (is("stream")) return Arg::kStream;
      if (is("device")) return Arg::kDevice;
      if (is("labels")) return Arg::kLabels;
      break;
    case 7:
      if (is("context")) return Arg::kContext;
      break;
    case 8:
      if (is("graph id")) return Arg::kGraphId;
      if (is("Comms Id")) return Arg::kCommsId;
      if (is("Src Rank")) return Arg::kSourceRank;
      if (is("Dst Rank")) return Arg::kDestinationRank;
      break;
    case 9:
      if (is("Python id")) return Arg::kPythonId;
      if (is("Device Id")) return Arg::kDeviceId;
      break;
    case 10:
      if (is("Input Dims")) return Arg::kInputDims;
      if (is("Input type")) return Arg::kInputTypes;
      if (is("Call stack")) return Arg::kCallStack;
      if (is("Group size")) return Arg::kGroupSize;
      break;
    case 11:
      if (is("External id") || is("external id")) return Arg::kExternalId;
      if (is("correlation")) return Arg::kCorrelation;
      if (is("Device Type")) return Arg::kDeviceType;
      break;
    case 12:
      if (is("warps per SM")) return Arg::kWarpsPerSm;
      break;
    case 13:
      if (is("blocks per SM")) return Arg::kBlocksPerSm;
      if (is("shared memory")) return Arg::kSharedMemory;
      if (is("Input Strides")) return Arg::kInputStrides;
      if (is("Fwd thread id")) return Arg::kForwardThread;
      if (is("In msg nelems")) return Arg::kInElements;
      if (is("graph node id")) return Arg::kGraphNodeId;
      break;
    case 14:
      if (is("Out msg nelems")) return Arg::kOutElements;
      if (is("wait_on_stream")) return Arg::kWaitOnStream;
      if (is("Total Reserved")) return Arg::kTotalReserved;
      break;
    case 15:
      if (is("Sequence number")) return Arg::kSequenceNumber;
      if (is("Concrete Inputs")) return Arg::kConcreteInputs;
      if (is("Collective name")) return Arg::kCollectiveName;
      if (is("Total Allocated")) return Arg::kTotalAllocated;
      break;
    case 16:
      if (is("Python parent id")) return Arg::kPythonParent;
      if (is("Python module id")) return Arg::kPythonModule;
      if (is("Module Hierarchy")) return Arg::kModuleHierarchy;
      break;
    case 18:
      if (is("Process Group Name")) return Arg::kGroupName;
      break;
    case 19:
      if (is("Process Group Ranks")) return Arg::kGroupRanks;
      break;
    case 20:
      if (is("registers per thread")) return Arg::kRegisters;
      break;
    case 21:
      if (is("wait_on_cuda_event_id")) return Arg::kWaitOnEvent;
      break;
    case 23:
      if (is("memory bandwidth (GB/s)")) return Arg::kBandwidth;
      break;
    case 25:
      if (is("est. achieved occupancy %")) return Arg::kOccupancy;
      if (is("Process Group Description")) return Arg::kGroupDescription;
      break;
    case 33:
      if (is("wait_on_cuda_event_record_corr_id")) return Arg::kWaitOnRecord;
      break;
    default:
      break;
  }
  return Arg::kCount;
}

}  // namespace flopwatch::trace
