#include "tasks/validation/reproduce.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "tasks/simulate.h"

namespace foregather::tasks {
namespace {

using Texts = std::vector<std::string>;

/// What to simulate, as the command line names it.
struct Scenario {
  std::string sample;
  Texts sets, what_if;
  MemoryModel memory = MemoryModel::allocator;

  std::string command() const {
    std::string text = "foregather simulate traces/samples/" + sample;
    for (const std::string& set : sets) text += " --set " + set;
    for (const std::string& pass : what_if) text += " --what-if " + pass;
    if (memory == MemoryModel::live) text += " --memory-model live";
    return text;
  }
  friend auto operator<=>(const Scenario&, const Scenario&) = default;
};

class Cases {
 public:
  explicit Cases(std::string folder) : folder_(std::move(folder)) {}

  Result<std::vector<Reproduced>> run() {
    shared_parameters();
    order_and_fusion();
    backward_prefetch();
    fused_downcast();
    if (error_) return tl::unexpected(*error_);
    return std::move(rows_);
  }

 private:
  // lightning-thunder PR 602 on the trace that its description shows, with other names.
  void shared_parameters() {
    const Scenario before{"thunder_tied_linear.txt", {}, {}, MemoryModel::live};
    Scenario after = before;
    after.what_if = {"dedup-shared-params=t_first_weight:t_second_weight"};
    const std::string source = "lightning-thunder PR 602, shared parameters gathered once";
    exact(source, "all-gathers before", "", "2", 2, gathers(before), before);
    exact(source, "all-gathers after", "", "1", 1, gathers(after), after);
    exact(source, "gathered bytes before", "B", "", 2048, gathered(before), before);
    exact(source, "gathered bytes after", "B", "", 1024, gathered(after), after);
    exact(source, "peak before (Thunder's estimator)", "B", "", 3584, peak(before), before);
    exact(source, "peak after (Thunder's estimator)", "B", "", 2816, peak(after), after);
    const Scenario names{"gpt2_two_names.toml", {}, {}};
    Scenario one = names;
    one.what_if = {"dedup-shared-params"};
    add({source,
         "GPT-2, embedding and head wrapped apart: gathers of a step that go",
         "",
         "",
         std::nullopt,
         gathers(names) - gathers(one),
         {2, 2},
         one.command(),
         "one in the forward and one in the backward"});
  }

  // lightning-thunder issue 1337, ten paths of 256 × 256 floats.
  void order_and_fusion() {
    const std::string source = "lightning-thunder issue 1337, fusion and order against memory";
    const auto mib = [&](const std::string& what, const std::string& published, double value,
                         const Scenario& scenario, const std::string& assumed = {}) {
      const Summary& summary = simulated(scenario);
      const double above = static_cast<double>(summary.large().memory.peaks.allocated -
                                               summary.argument_bytes.value_or(0)) /
                           static_cast<double>(MiB);
      add({source,
           what,
           "MiB",
           published,
           published.empty() ? std::nullopt : std::optional(std::stod(published)),
           above,
           {value, value},
           scenario.command(),
           assumed});
    };
    const auto scenario = [](const std::string& how, Texts what_if = {}) {
      return Scenario{
          "thunder_ten_paths_" + how + ".txt", {}, std::move(what_if), MemoryModel::live};
    };
    mib("path by path, above the inputs", "0.75", 0.75, scenario("one_by_one"));
    mib("stage by stage", "2.75", 2.75, scenario("stage_by_stage"));
    mib("horizontal fusion as Thunder printed it", "2.25", 5.0, scenario("horizontal"),
        "the published figure cannot be had from the printed trace: ten outputs of a region live "
        "beside ten inputs that the caller holds");
    mib("horizontal, order=memory", "", 5.0, scenario("horizontal", {"order=memory"}),
        "proved optimal with its regions kept");
    mib("horizontal, regions taken apart", "0.75", 0.75,
        scenario("horizontal", {"fusion=none", "order=memory"}));
    mib("stage by stage, order=memory", "0.75", 0.75, scenario("stage_by_stage", {"order=memory"}));
  }

  // PyTorch PR 70235.
  void backward_prefetch() {
    const std::string source = "PyTorch PR 70235, backward prefetch";
    const std::string assumed = "4 ranks at 10 Gb/s, 3 layers of 2048, batch 8 × 512";
    const auto with = [](const char* sample, const char* prefetch) {
      return Scenario{sample, {std::string("parallel.backward_prefetch=") + prefetch}, {}};
    };
    const Scenario none = with("roberta_1gb_slow_network.toml", "none");
    const Scenario pre = with("roberta_1gb_slow_network.toml", "pre");
    const Scenario post = with("roberta_1gb_slow_network.toml", "post");
    change(source, "step time, pre-backward against none", "about -20 %", -20, {-25, -15},
           time(none), time(pre), pre, assumed);
    change(source, "peak, pre-backward against none", "about +10 %", 10, {5, 15}, peak(none),
           peak(pre), pre, assumed);
    change(source, "peak, post-backward against none", "no more", {}, {-100, 0}, peak(none),
           peak(post), post, assumed);
    const Scenario late_post = with("late_prefetch_fsdp1.toml", "post");
    const Scenario late_pre = with("late_prefetch_fsdp1.toml", "pre");
    change(source, "step time, post-backward against pre where it is late", "slower", {},
           {0.1, 100}, time(late_pre), time(late_post), late_post, "a case made for it");
  }

  // DeepSpeed PR 7588.
  void fused_downcast() {
    const std::string source = "DeepSpeed PR 7588, downcast fused into the all-gather";
    const std::string assumed = "4 RTX 5090, batch 2 × 320, DeepSpeed's default buckets";
    const auto with = [](Texts what_if) {
      return Scenario{"openvla_zero3.toml", {"parallel.strategy=deepcompile"}, std::move(what_if)};
    };
    const Scenario before = with({}), after = with({"fuse-downcast"});
    change(source, "step time", "-23.1 %", -23.1, {-28, -18}, time(before), time(after), after,
           assumed);
    change(source, "peak", "-10.5 %", -10.5, {-15, -7}, peak(before), peak(after), after, assumed);
    const Scenario prefetched = with({"prefetch=budget"});
    const Scenario shard = with({"fuse-downcast,prefetch_dtype=shard", "prefetch=budget"});
    change(source, "step time, with its prefetch pass in the shard's dtype", "", {}, {-18, 0},
           time(prefetched), time(shard), shard,
           "the pass gathers in fp32 again: DeepSpeed passes no dtype");
  }

  const Summary& simulated(const Scenario& scenario) {
    const auto known = done_.find(scenario);
    if (known != done_.end()) return known->second;
    SimulateRequest request;
    request.sources.paths = {folder_ + "/" + scenario.sample};
    request.sets = scenario.sets;
    request.what_if = scenario.what_if;
    request.memory_model = scenario.memory;
    request.record_memory = false;
    auto outcome = simulate(request);
    Summary summary;
    if (outcome)
      summary = std::move(outcome->summary);
    else if (!error_)
      error_ = outcome.error();
    if (summary.classes.empty()) summary.classes.emplace_back();
    return done_.emplace(scenario, std::move(summary)).first->second;
  }

  double time(const Scenario& scenario) {
    return static_cast<double>(simulated(scenario).step_time().value_or(0));
  }
  double peak(const Scenario& scenario) {
    return static_cast<double>(simulated(scenario).large().memory.peaks.allocated);
  }
  compare::CollectiveUse gather_use(const Scenario& scenario) {
    const auto& times = simulated(scenario).slow().times;
    return times ? times->busy.by_kind[static_cast<std::size_t>(OpKind::all_gather)]
                 : compare::CollectiveUse();
  }
  double gathers(const Scenario& scenario) {
    return static_cast<double>(gather_use(scenario).count);
  }
  double gathered(const Scenario& scenario) {
    return static_cast<double>(gather_use(scenario).bytes);
  }

  void add(Reproduced row) { rows_.push_back(std::move(row)); }

  void exact(const std::string& source, const std::string& what, const std::string& unit,
             const std::string& published, double value, double predicted,
             const Scenario& scenario) {
    add({source,
         what,
         unit,
         published,
         published.empty() ? std::nullopt : std::optional(value),
         predicted,
         {value, value},
         scenario.command(),
         published.empty() ? "by the sizes of the printed trace" : ""});
  }

  // In per cent of `before`.
  void change(const std::string& source, const std::string& what, const std::string& published,
              std::optional<double> value, std::pair<double, double> range, double before,
              double after, const Scenario& scenario, const std::string& assumed) {
    const double percent = before > 0 ? 100 * (after / before - 1) : 0;
    const auto hundredths = static_cast<std::int64_t>(percent * 100 + (percent < 0 ? -0.5 : 0.5));
    add({source, what, "%", published, value, static_cast<double>(hundredths) / 100, range,
         scenario.command(), assumed});
  }

  std::string folder_;
  std::map<Scenario, Summary> done_;
  std::vector<Reproduced> rows_;
  std::optional<Error> error_;
};

}  // namespace

std::optional<double> Reproduced::difference() const {
  if (!published_value) return std::nullopt;
  const double hundredths = (predicted - *published_value) * 100;
  return static_cast<double>(
             static_cast<std::int64_t>(hundredths + (hundredths < 0 ? -0.5 : 0.5))) /
         100;
}

Result<std::vector<Reproduced>> reproduce(const std::string& folder) { return Cases(folder).run(); }

}  // namespace foregather::tasks
