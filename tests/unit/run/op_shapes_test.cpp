// Arguments of operators as torch.profiler prints them.
#include "core/run/op_shapes.h"

#include <catch2/catch.hpp>

#include "core/run/kernel_names.h"

using namespace foregather;
using namespace foregather::run;

TEST_CASE("op shapes: tensors with sizes, types and places among the arguments") {
  const auto tensors = shaped_arguments("[[4096], [16, 256],[256, 4096], [], []]",
                                        R"(["float", "c10::Half", "c10::BFloat16", "Scalar", ""])");
  REQUIRE(tensors.size() == 3);
  CHECK(tensors[0].dtype == DType::f32);
  CHECK(tensors[1].sizes == std::vector<std::int64_t>{16, 256});
  CHECK(tensors[1].elements == 4096);
  CHECK(tensors[1].bytes() == 8192);
  CHECK(tensors[2].position == 2);
  CHECK(tensors[2].dtype == DType::bf16);
}

TEST_CASE("op shapes: a tensor without dimensions is one element, lists count their tensors") {
  const auto tensors = shaped_arguments("[[], [[2, 3], [4]]]", R"(["long int", "TensorList"])");
  REQUIRE(tensors.size() == 3);
  CHECK(tensors[0].elements == 1);
  CHECK(tensors[0].bytes() == 8);
  CHECK(tensors[1].elements == 6);
  CHECK(tensors[2].elements == 4);
  CHECK(tensors[2].position == 1);
}

TEST_CASE("op shapes: other texts give nothing") {
  const char* const types = R"(["float", "float"])";
  for (const char* text : {"", "[", "[[1, 2]", "{}", "[[1, \"a\"]]", "[[[[[[[[1]]]]]]]]", "[1, 2]",
                           "[[99999999999999999999]]", "[[-1]]", "[[4294967296, 4294967296]]"}) {
    CAPTURE(text);
    CHECK(shaped_arguments(text, types).empty());
  }
  CHECK(shaped_arguments("[[1], [2], [3]]", types).size() == 2);
  CHECK(shaped_arguments("[[1]]", "").empty());
}

TEST_CASE("kernel names: a family has no template arguments and no parameters") {
  CHECK(kernel_family("void at::native::vectorized_elementwise_kernel<4, Add<float> >(int, Add)") ==
        "at::native::vectorized_elementwise_kernel");
  CHECK(kernel_family("void (anonymous namespace)::softmax<c10::Half>(c10::Half*)") ==
        "(anonymous namespace)::softmax");
  CHECK(kernel_family("ampere_sgemm_128x64_nn") == "ampere_sgemm_128x64_nn");
  CHECK(kernel_family(">>broken<<") == "broken");
}

TEST_CASE("kernel names: cuDNN's attention with its helpers, not products for their letters") {
  const char* const main =
      "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26_64x64x128_1x4x1";
  CHECK(is_cudnn_kernel(main));
  CHECK_FALSE(is_cudnn_kernel("void pytorch_flash::flash_fwd_kernel<cutlass::bfloat16_t>()"));
  for (const char* name :
       {main, "void cudnn::fusion::compute_dot_do_o_specialized<true, 128>(void const*)",
        "void cudnn::fusion::convert_dq_to_16bits<true>(void const*)",
        "void cudnn::fusion::fmha_reduce_head<true>(void const*)"}) {
    CAPTURE(name);
    CHECK(op_kind(ActivityKind::kernel, name) == OpKind::attention);
  }
}

TEST_CASE("kernel names: what TorchInductor merged is fused, its templates are not") {
  for (const char* name :
       {"triton_poi_fused__scaled_mm__to_copy_clamp_clone_mul_reciprocal_t_view_3",
        "triton_red_fused__fused_rms_norm_0", "triton_per_fused_convert_element_type_sum_1",
        "triton_poi_fused__scaled_dot_product_cudnn_attention__to_copy_4", "triton__0d1d2de"}) {
    CAPTURE(name);
    CHECK(op_kind(ActivityKind::kernel, name) == OpKind::fused);
  }
  CHECK(op_kind(ActivityKind::kernel, "triton_tem_fused_flex_attention_0") == OpKind::attention);
  CHECK(op_kind(ActivityKind::kernel, "triton_rms_norm_kernel") == OpKind::norm);
}
