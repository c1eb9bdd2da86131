// Rows of published results that tests predict.
#pragma once

#include <string>

#include "tasks/validation/measured.h"

namespace foregather::test {

inline tasks::MeasuredRow example_row() {
  tasks::MeasuredRow row;
  row.id = "x";
  row.gpu = "A100-SXM4-40GB";
  row.strategy = "fsdp1_hybrid";
  row.param_dtype = row.reduce_dtype = row.compute = "bf16";
  row.master = "fp32";
  row.checkpointing = "unknown";
  row.compile = "none";
  row.attention = "flash";
  row.optimizer = "adamw_fused";
  row.config = "llama2_7b";
  row.link = "nvswitch";
  row.fabric = "roce_200";
  row.gpus = 16;
  row.nodes = 2;
  row.micro_batch = 2;
  row.seq_len = 4096;
  return row;
}

/// Large products, so that compute is what counts.
inline tasks::MeasuredRow heavy_row(const std::string& id, std::int64_t gpus) {
  tasks::MeasuredRow row = example_row();
  row.id = id;
  row.tier = "A";
  row.gpu = "H100-SXM-80GB";
  row.strategy = "fsdp2";
  row.config =
      R"({"family":"llama","hidden_size":4096,"num_hidden_layers":1,"num_attention_heads":32,)"
      R"("num_key_value_heads":8,"intermediate_size":14336,"vocab_size":32000,)"
      R"("max_position_embeddings":4096,"tie_word_embeddings":false})";
  row.fabric = "unknown";
  row.gpus = gpus;
  row.nodes = gpus / 8;
  return row;
}

}  // namespace foregather::test
