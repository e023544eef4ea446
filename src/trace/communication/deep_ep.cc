#include "trace/communication/families.h"

namespace flopwatch::trace::communication {
namespace {

constexpr std::string_view kDeepEpSource =
    "github.com/deepseek-ai/DeepEP, csrc/kernels/{intranode,internode,internode_ll,layout}.cu";
constexpr std::string_view kElasticSource =
    "github.com/deepseek-ai/DeepEP, deep_ep/include/deep_ep/impls: deep_ep::elastic::*_impl";
constexpr std::string_view kHybridSource =
    "github.com/deepseek-ai/DeepEP, branch hybrid-ep: hybrid_ep::*";
constexpr auto kOwn = KernelClass::kCommunication;
constexpr auto kWord = NameMatch::kWordBegin;

// The namespace of a fork is its own (uccl::internode_ll, rtp_llm, paddle); those below it are
// kept, so both are asked for.
constexpr CommunicationName kDeepEpNames[] = {
    // Counts the tokens for each rank; nothing leaves the GPU.
    {"layout::get_dispatch_layout", kDeepEpSource, KernelClass::kCompute},
    {"deep_ep::", kDeepEpSource},
    {"intranode::dispatch", kDeepEpSource, kOwn, kWord},
    {"intranode::combine", kDeepEpSource, kOwn, kWord},
    {"intranode::notify_dispatch", kDeepEpSource, kOwn, kWord},
    {"intranode::cached_notify", kDeepEpSource, kOwn, kWord},
    {"intranode::barrier", kDeepEpSource, kOwn, kWord},
    {"internode::dispatch", kDeepEpSource, kOwn, kWord},
    {"internode::combine", kDeepEpSource, kOwn, kWord},
    {"internode::notify_dispatch", kDeepEpSource, kOwn, kWord},
    {"internode::cached_notify", kDeepEpSource, kOwn, kWord},
    {"internode_ll::dispatch", kDeepEpSource, kOwn, kWord},
    {"internode_ll::combine", kDeepEpSource, kOwn, kWord},
    {"internode_ll::clean_low_latency_buffer", kDeepEpSource, kOwn, kWord},
    {"elastic::dispatch_impl", kElasticSource, kOwn, kWord},
    {"elastic::combine_impl", kElasticSource, kOwn, kWord},
    {"hybrid_dispatch_impl", kElasticSource, kOwn, kWord},
    {"hybrid_combine_impl", kElasticSource, kOwn, kWord},
    {"pp_send_impl", kElasticSource, kOwn, kWord},
    {"pp_recv_impl", kElasticSource, kOwn, kWord},
    {"hybrid_ep::", kHybridSource},
};

}  // namespace

constinit const CommunicationFamily kDeepEp = {
    .name = "deep-ep",
    .title = "DeepEP and its forks: dispatch and combine of expert parallelism",
    .names = kDeepEpNames};

}  // namespace flopwatch::trace::communication
