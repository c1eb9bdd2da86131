// Tables of measured runs that tests write.
#pragma once

#include <catch2/catch.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace foregather::test {

inline const std::string kColumns =
    "tier,group,strategy_key,tp,cp,pp,param_dtype,reduce_dtype,compute,master,fp8_all_gather,"
    "ac_key,compile_key,grad_accum,attention,optimizer,mem_metric,mem_when,alloc_conf,config,link,"
    "fabric,fabric_gbps_per_gpu,id,gpu,n_gpus,n_nodes,micro_batch,seq_len,step_time_s,"
    "peak_mem_gib,notes\n";
inline const std::string kTiny =
    "\"{\"\"family\"\":\"\"llama\"\",\"\"hidden_size\"\":256,\"\"num_hidden_layers\"\":2,"
    "\"\"num_attention_heads\"\":4,\"\"num_key_value_heads\"\":2,\"\"intermediate_size\"\":512,"
    "\"\"vocab_size\"\":1000,\"\"max_position_embeddings\"\":512,\"\"tie_word_embeddings\"\":false}"
    "\"";

inline std::string line(const std::string& strategy, const std::string& id,
                        const std::string& answers) {
  return "A,g," + strategy + ",1,1,1,bf16,fp32,bf16,fp32,,none,none,1,sdpa,adamw,allocated_gib," +
         "steady,," + kTiny + ",nvswitch,none,," + id + ",H100-SXM-80GB,8,1,2,512," + answers +
         "\n";
}

/// A folder of its own that goes away with the test: cases run at the same time.
struct Folder {
  std::filesystem::path path;
  Folder() {
    std::string name =
        (std::filesystem::temp_directory_path() / "foregather-validation-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Folder() { std::filesystem::remove_all(path); }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path / name) << text;
    return (path / name).string();
  }
  std::string read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(path / name).rdbuf();
    return text.str();
  }
};

}  // namespace foregather::test
