// Small models whose numbers are worked out by hand in the tests.
#pragma once

namespace flopwatch::models {

// D 64, 4 heads of 16, 2 key/value heads, F 128, V 100, 2 layers.
//   attention 64*64 + 2*64*32 + 64*64 = 12288, MLP 3*64*128 = 24576, layer 36864, head 6400
//   matmul 2*36864 + 6400 = 80128; embedding 6400; norms 2*2*64 + 64 = 320; all 86848
inline constexpr char kSmallLlama[] =
    R"({"model_type":"llama","hidden_size":64,"num_hidden_layers":2,"num_attention_heads":4,
    "num_key_value_heads":2,"intermediate_size":128,"vocab_size":100,"tie_word_embeddings":false})";

// The same as Megatron-LM arguments, the vocabulary padded to 128.
inline constexpr char kSmallMegatron[] =
    "python pretrain_gpt.py --num-layers 2 --hidden-size 64 --num-attention-heads 4 "
    "--group-query-attention "
    "--num-query-groups 2 \\\n  --ffn-hidden-size 128 --swiglu --vocab-size 100 --normalization "
    "RMSNorm --disable-bias-linear "
    "--untie-embeddings-and-output-weights --position-embedding-type rope --seq-length 32";

}  // namespace flopwatch::models
