// Kernel names of the libraries of communication, as their public sources and public profiles have
// them, and names that only look like it.
#include "trace/kernel_class.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "trace/builder.h"
#include "trace/communication/family.h"

namespace flopwatch::trace {
namespace {

std::string FamilyOf(std::string_view name) {
  const KernelKind kind = KindOfKernel(name);
  return kind.family == nullptr ? "" : std::string(kind.family->name);
}

TEST(KernelClass, LibrariesAreKnownByTheirNames) {
  struct Case {
    const char *kernel, *family;
  };
  const Case kCases[] = {
      {"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "nccl"},
      {"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", "nccl"},
      {"ncclSymkDevKernel_AllReduce_RSxLDMC_AGxSTMC_sum_bf16(ncclSymkDevWorkArgs4K)", "nccl"},
      {"void deep_ep::internode_ll::dispatch<false, 3, 7168>(void*, float*, int*)", "deep-ep"},
      {"void deep_ep::intranode::notify_dispatch<8>(int const*, int*)", "deep-ep"},
      // A build without the outer namespace, a fork in its own, and names that were not demangled.
      {"void intranode::combine<__nv_bfloat16, 8, 768, 4096>(__nv_bfloat16*)", "deep-ep"},
      {"void uccl::internode_ll::combine<true, 7168, 9, 3>(void*, void*)", "deep-ep"},
      {"_ZN7deep_ep9intranode8dispatchILi8ELi768ELi8192EEEvP4int4Pf", "deep-ep"},
      {"_ZN4uccl12internode_ll8dispatchILb0ELi7168EEEvPvS1_", "deep-ep"},
      {"void deep_ep::elastic::hybrid_dispatch_impl<8, 2, 24>(void*)", "deep-ep"},
      {"void hybrid_ep::device_sync_kernel<8>(unsigned int*)", "deep-ep"},
      {"void mori::moe::EpDispatchIntraNodeKernel<__hip_bfloat16>(mori::moe::Args)",
       "expert-parallel"},
      {"void a2a_dispatch_send_kernel<true, 16>(unsigned long)", "expert-parallel"},
      {"void tensorrt_llm::kernels::mnnvl_throughput::moeA2ADispatchKernel<8>(int const*)",
       "expert-parallel"},
      {"void mscclpp::collective::allreducePacket<__half>(__half*)", "mscclpp"},
      {"void barrier_on_stream_kernel_threadgroup<(threadgroup_t)1>(int, int)", "shmem"},
      {"void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>(vllm::RankData*)", "serving"},
      {"_ZN5aiter33reduce_scatter_cross_device_storeIDF16bLi8EEEvPNS_8RankDataE", "serving"},
      {"void quickreduce::allreduce_prototype_twoshot<AllReduceTwoshot<__half>, __half>(int)",
       "serving"},
      {"void (anonymous namespace)::all_reduce_one_shot_push_kernel<__half, 8u, true>(int)",
       "serving"},
      {"void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport"
       "<(flashinfer::trtllm_allreduce_fusion::AllReduceFusionPattern)1, __nv_bfloat16, 8>(int)",
       "trt-llm"},
      {"void (anonymous namespace)::two_shot_all_reduce_kernel_inplace<c10::BFloat16, 16, 2>"
       "(c10::BFloat16**)",
       "symmetric-memory"},
      {"void (anonymous namespace)::multimem_all_reduce_kernel<float, 16>(float*)",
       "symmetric-memory"},
      {"allToAllV(void*, void*, long*, unsigned long, int, int)", "symmetric-memory"},
      {"void userbuffers_fp16_sum_inplace_gpu_rr_rs_oop<8>(int, int)", "user-buffers"},
      {"kuserbuffers_pushrecv(int, int, int*)", "user-buffers"},
      {"hcom_allReduce__721_0_1", "hccl"},
      {"aiv_all_gather_bfloat16_t", "hccl"},
      {"MoeDistributeDispatchV2", "ascend-fusions"},
  };
  for (const Case& c : kCases) {
    const KernelKind kind = KindOfKernel(c.kernel);
    EXPECT_EQ(kind.is, KernelClass::kCommunication) << c.kernel;
    EXPECT_FALSE(kind.guessed) << c.kernel;
    EXPECT_EQ(FamilyOf(c.kernel), c.family) << c.kernel;
  }
}

TEST(KernelClass, FusedKernelsAreTheirOwnClass) {
  for (const char* name :
       {"void cutlass::device_kernel<cutlass::gemm::kernel::Sm90AGGemmUniversal<int>>(int)",
        "kernel_consumer_gemm_persistent", "kernel_gemm_rs_producer_persistent",
        "void deep_gemm::sm100_fp8_fp4_mega_moe_impl<384, 7168>(void*)",
        "MatmulAllReduceAddRmsNorm_0a1b", "AllGatherMatmul"}) {
    EXPECT_EQ(KindOfKernel(name).is, KernelClass::kFused) << name;
    EXPECT_FALSE(KindOfKernel(name).guessed) << name;
    EXPECT_FALSE(IsCommunicationKernel(name));
  }
}

TEST(KernelClass, WhatOnlyLooksLikeItComputes) {
  for (const char* name :
       {"nvjet_tst_256x128_64x4_2x1_v_bz_coopA_NNT", "custom_argmax_kernel",
        "void deep_ep::layout::get_dispatch_layout<256, 32, 8>(long const*)",
        // Inductor names its kernels after the operators that it fuses.
        "triton_poi_fused_add_all_reduce_4", "triton_red_fused_all_gather_into_tensor_mul_0",
        "void flash::flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<128>>(int)",
        "void at::native::index_elementwise_kernel<128, 4>(long)",
        // A template argument names a type of a library; the function is its own.
        "void user::scale<my_all_gather::Layout>(float*)"}) {
    EXPECT_EQ(KindOfKernel(name).is, KernelClass::kCompute) << name;
    EXPECT_FALSE(KindOfKernel(name).guessed) << name;
  }
}

TEST(KernelClass, WordsInUnknownNamesAreAGuess) {
  const KernelKind gather = KindOfKernel("acme_ring_all_gather_bf16");
  EXPECT_EQ(gather.is, KernelClass::kCommunication);
  EXPECT_TRUE(gather.guessed);
  const KernelKind fused = KindOfKernel("void acme::gemm_reduce_scatter<128>(float*)");
  EXPECT_EQ(fused.is, KernelClass::kFused);
  EXPECT_TRUE(fused.guessed);
  const KernelKind dispatch = KindOfKernel("void acme::moe_dispatch_kernel<8>(int*)");
  EXPECT_EQ(dispatch.is, KernelClass::kCompute);
  EXPECT_TRUE(dispatch.guessed);
  // The site knows.
  const KernelKind named = KindOfKernel("void acme::moe_dispatch_kernel<8>(int*)", {"Acme::moe"});
  EXPECT_EQ(named.is, KernelClass::kCommunication);
  EXPECT_FALSE(named.guessed);
}

TEST(KernelClass, CopiesFromGpuToGpuCommunicate) {
  TraceBuilder b;
  b.Gpu(Category::kGpuMemcpy, "Memcpy PtoP (Device -> Device)", 0, 10, 1);
  b.Gpu(Category::kGpuMemcpy, "Memcpy DtoD (Device -> Device)", 20, 10, 2);
  b.Gpu(Category::kGpuMemset, "Memset (Device)", 40, 10, 3);
  const TraceSet set = std::move(b).Build();
  EXPECT_THAT(ClassifyRows(set.names, set.ranks[0]),
              ::testing::ElementsAre(KernelClass::kCommunication, KernelClass::kMemory,
                                     KernelClass::kMemory));
}

TEST(KernelClass, EveryEntryHasItsSourceAndIsLowerCase) {
  std::set<std::string_view> families;
  for (const CommunicationFamily* family : CommunicationFamilies()) {
    EXPECT_TRUE(families.insert(family->name).second) << family->name;
    EXPECT_FALSE(family->title.empty());
    EXPECT_FALSE(family->names.empty()) << family->name;
    for (const CommunicationName& n : family->names) {
      EXPECT_NE(n.source.find('.'), std::string_view::npos) << n.text;
      for (const char c : n.text) EXPECT_FALSE(c >= 'A' && c <= 'Z') << n.text;
    }
  }
}

TEST(KernelClass, HostileMangledNamesAreReadWithinTheirLength) {
  EXPECT_EQ(PlainKernelName("_ZN3foo"), "foo");
  EXPECT_EQ(PlainKernelName("_ZN99foo"), "_ZN99foo");
  EXPECT_EQ(PlainKernelName("_ZN99999999999999999999999999foo"),
            "_ZN99999999999999999999999999foo");
  EXPECT_EQ(PlainKernelName("_ZN0"), "_ZN0");
  EXPECT_EQ(PlainKernelName("_ZN"), "_ZN");
  EXPECT_EQ(PlainKernelName(""), "");
}

}  // namespace
}  // namespace flopwatch::trace
