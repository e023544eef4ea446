#include "trace/import/kineto_table.h"

namespace flopwatch::trace {
namespace {

template <typename T>
void Join(const TableVector<T>& from, TableVector<T>* to) {
  to->insert(to->end(), from.begin(), from.end());
}

}  // namespace

KinetoTable::KinetoTable(size_t parsers, ImportedRank* rank) : rank_(rank), parsers_(parsers) {}

void KinetoTable::Expect(double factor) {
  RankTrace& t = rank_->trace;
  const auto room = [&](auto&... tables) {
    (tables.reserve(static_cast<size_t>(factor * static_cast<double>(tables.size()))), ...);
  };
  t.events.Reserve(static_cast<size_t>(factor * static_cast<double>(t.events.size())));
  room(t.kernels, t.copies, t.ops, t.collectives, t.syncs, t.python, t.memory);
}

void KinetoTable::Learn(size_t parser, const KinetoBatch& batch) {
  Parser& known = parsers_[parser];
  known.names.resize(batch.first_name);
  for (const std::string_view text : batch.names) known.names.push_back({text, kNotYet});
  known.threads.resize(batch.first_thread);
  for (const Thread& thread : batch.threads) known.threads.push_back({thread, kNotYet});
}

inline NameId KinetoTable::NameOf(Parser* parser, NameId name) {
  Name& known = parser->names[name];
  if (known.id == kNotYet) [[unlikely]]
    known.id = rank_->names.Intern(known.text);
  return known.id;
}

inline uint32_t KinetoTable::ThreadIdOf(Parser* parser, uint32_t thread) {
  ThreadOf& known = parser->threads[thread];
  if (known.id != kNotYet) [[likely]]
    return known.id;
  Thread t = known.thread;
  t.pid_text = NameOf(parser, t.pid_text);
  t.tid_text = NameOf(parser, t.tid_text);
  std::vector<Thread>& threads = rank_->trace.threads;
  const auto [it, fresh] = thread_ids_.try_emplace({t.pid, t.tid, t.pid_text, t.tid_text},
                                                   static_cast<uint32_t>(threads.size()));
  if (fresh) threads.push_back(t);
  return known.id = it->second;
}

void KinetoTable::Append(size_t parser_index, const KinetoBatch& batch) {
  Learn(parser_index, batch);
  Parser* const parser = &parsers_[parser_index];
  const auto name = [&](NameId id) { return NameOf(parser, id); };
  const RankTrace& from = batch.rows;
  RankTrace& to = rank_->trace;
  EventTable& e = to.events;
  const size_t rows = from.events.size(), first = e.size();

  const auto kernels = static_cast<uint32_t>(to.kernels.size()),
             copies = static_cast<uint32_t>(to.copies.size());
  const auto ops = static_cast<uint32_t>(to.ops.size()),
             syncs = static_cast<uint32_t>(to.syncs.size());
  const auto python = static_cast<uint32_t>(to.python.size()),
             collectives = static_cast<uint32_t>(to.collectives.size());
  const auto detail_base = [&](Category c) -> uint32_t {
    switch (c) {
      case Category::kKernel:
        return kernels;
      case Category::kGpuMemcpy:
      case Category::kGpuMemset:
        return copies;
      case Category::kCpuOp:
      case Category::kUserAnnotation:
        return ops;
      case Category::kSync:
        return syncs;
      case Category::kPythonFunction:
        return python;
      case Category::kGpuCollective:
        return collectives;
      default:
        return 0;
    }
  };
  Join(from.events.ts, &e.ts);
  Join(from.events.dur, &e.dur);
  Join(from.events.category, &e.category);
  Join(from.events.stream, &e.stream);
  Join(from.events.correlation, &e.correlation);
  Join(from.events.external_id, &e.external_id);
  e.name.resize(first + rows);
  e.thread.resize(first + rows);
  e.detail.resize(first + rows);
  e.file_category.resize(first + rows);
  for (size_t i = 0; i < rows; ++i) {
    e.name[first + i] = name(from.events.name[i]);
    e.thread[first + i] = ThreadIdOf(parser, from.events.thread[i]);
    e.file_category[first + i] = name(from.events.file_category[i]);
    const uint32_t detail = from.events.detail[i];
    e.detail[first + i] =
        detail == kNoDetail ? kNoDetail : detail + detail_base(from.events.category[i]);
  }

  AppendDetails(parser, batch, first);
  for (KinetoBatch::Flow flow : batch.flows) {
    flow.thread = ThreadIdOf(parser, flow.thread);
    flows_.push_back(flow);
  }
  for (KinetoBatch::Label label : batch.labels) {
    label.thread = ThreadIdOf(parser, label.thread);
    label.text = name(label.text);
    labels_.push_back(label);
  }
  for (size_t i = 0; i < losses_.size(); ++i) losses_[i] += batch.losses[i];
  entries_ += batch.entries;
}

void KinetoTable::AppendDetails(Parser* parser, const KinetoBatch& batch, size_t first_row) {
  const auto name = [&](NameId id) { return NameOf(parser, id); };
  const RankTrace& from = batch.rows;
  RankTrace& to = rank_->trace;
  const auto collectives = static_cast<uint32_t>(to.collectives.size());
  const auto shift = [&](uint32_t* index) { *index += *index == kNoDetail ? 0 : collectives; };
  for (KernelDetail k : from.kernels) {
    shift(&k.collective);
    to.kernels.push_back(k);
  }
  for (OpDetail o : from.ops) {
    o.input_dims = name(o.input_dims);
    o.input_types = name(o.input_types);
    o.input_strides = name(o.input_strides);
    o.concrete_inputs = name(o.concrete_inputs);
    o.call_stack = name(o.call_stack);
    o.module_hierarchy = name(o.module_hierarchy);
    shift(&o.collective);
    to.ops.push_back(o);
  }
  for (CollectiveDetail c : from.collectives) {
    c.collective = name(c.collective);
    c.dtype = name(c.dtype);
    c.group_name = name(c.group_name);
    c.group_description = name(c.group_description);
    c.group_ranks = name(c.group_ranks);
    to.collectives.push_back(c);
  }
  Join(from.copies, &to.copies);
  Join(from.syncs, &to.syncs);
  Join(from.python, &to.python);
  Join(from.memory, &to.memory);
  for (RangeMetric m : from.range_metrics)
    to.range_metrics.push_back({static_cast<Row>(m.row + first_row), name(m.metric), m.value});
  for (CounterSample c : from.counters) {
    c.counter = name(c.counter);
    to.counters.push_back(c);
  }
}

}  // namespace flopwatch::trace
