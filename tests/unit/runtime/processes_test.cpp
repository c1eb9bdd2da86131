#include "runtime/processes.h"

#include <map>
#include <catch2/catch.hpp>

using namespace foregather;
using runtime::process_place;

namespace {

runtime::Environment with(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) -> std::optional<std::string> {
    const auto value = values.find(name);
    if (value == values.end()) return std::nullopt;
    return value->second;
  };
}

std::string error_of(std::map<std::string, std::string> values) {
  const auto place = process_place(with(std::move(values)));
  return place ? "" : place.error().text();
}

}  // namespace

TEST_CASE("launchers say which process this is") {
  const auto torchrun = process_place(with({{"RANK", "5"},
                                            {"WORLD_SIZE", "8"},
                                            {"LOCAL_RANK", "1"},
                                            {"MASTER_ADDR", "node0"},
                                            {"MASTER_PORT", "1234"}}));
  REQUIRE((torchrun && *torchrun));
  CHECK((*torchrun)->rank == 5);
  CHECK((*torchrun)->world_size == 8);
  CHECK((*torchrun)->local_rank == 1);
  CHECK((*torchrun)->address == "node0");
  CHECK((*torchrun)->port == 1234);
  CHECK((*torchrun)->launcher == "torchrun");

  // All on one machine: that one.
  const auto mpirun = process_place(with({{"OMPI_COMM_WORLD_RANK", "1"},
                                          {"OMPI_COMM_WORLD_SIZE", "2"},
                                          {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}));
  REQUIRE((mpirun && *mpirun));
  CHECK((*mpirun)->address == "127.0.0.1");
  CHECK((*mpirun)->port == 29500);
  CHECK((*mpirun)->launcher == "mpirun");

  const auto srun = process_place(with({{"SLURM_PROCID", "3"},
                                        {"SLURM_STEP_NUM_TASKS", "4"},
                                        {"SLURM_LOCALID", "0"},
                                        {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.1"}}));
  REQUIRE((srun && *srun));
  CHECK((*srun)->address == "10.0.0.1");
  CHECK((*srun)->launcher == "srun");
}

TEST_CASE("under srun rank 0 is on the first node of the step, wherever srun was typed") {
  const auto address = [](const std::string& nodes, const std::string& count) {
    const auto place = process_place(with({{"SLURM_PROCID", "1"},
                                           {"SLURM_STEP_NUM_TASKS", "4"},
                                           {"SLURM_LOCALID", "0"},
                                           {"SLURM_STEP_NODELIST", nodes},
                                           {"SLURM_STEP_NUM_NODES", count},
                                           {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.1"}}));
    REQUIRE((place && *place));
    return (*place)->address;
  };
  CHECK(address("gpu[03-07,9],login", "6") == "gpu03");
  CHECK(address("gpu[11,13]-ib", "2") == "gpu11-ib");
  CHECK(address("a,b", "2") == "a");
  CHECK(address("gpu[", "2") == "gpu");
  CHECK(address("", "2") == "10.0.0.1");
  CHECK(address("gpu7", "1") == "127.0.0.1");
}

TEST_CASE("without a launcher, or with one process, there is no place to have") {
  CHECK((process_place(with({})) && !*process_place(with({}))));
  const auto alone = process_place(with({{"RANK", "0"}, {"WORLD_SIZE", "1"}}));
  CHECK((alone && !*alone));
  // A batch job of Slurm without srun.
  const auto batch = process_place(with({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}));
  CHECK((batch && !*batch));
}

TEST_CASE("half of a launcher's variables is refused by name") {
  CHECK(error_of({{"RANK", "0"}}) == "WORLD_SIZE: is not set, but RANK is; expected both");
  CHECK(error_of({{"WORLD_SIZE", "4"}}) == "RANK: is not set, but WORLD_SIZE is; expected both");
  CHECK(error_of({{"RANK", "0"}, {"WORLD_SIZE", "4"}}) ==
        "LOCAL_RANK: is not set, expected a whole number");
  CHECK(error_of({{"RANK", "4"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "0"}}) ==
        "RANK: 4 of 4 processes, expected less");
  CHECK(error_of({{"RANK", "x"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "0"}}) ==
        "RANK: 'x', expected a whole number up to 1048576");
  CHECK(error_of({{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "0"}}) ==
        "MASTER_ADDR: is not set, expected the name of the machine of rank 0");
  CHECK(error_of({{"RANK", "0"},
                  {"WORLD_SIZE", "4"},
                  {"LOCAL_RANK", "0"},
                  {"MASTER_ADDR", "a"},
                  {"MASTER_PORT", "65535"}}) ==
        "MASTER_PORT: '65535', expected a whole number up to 65534");
}
