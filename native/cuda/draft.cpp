// The host's side of the layer that drafts: which of its rows run behind a step, pass by pass.
#include "core.h"

namespace paceline::cuda {

void DeviceCore::begin_drafts(const std::vector<Row>& rows, const int32_t* tokens) {
  size_t outputs = 0;
  std::vector<int> first_column;
  int columns = 0;
  wanted_drafts_.clear();
  for (const Row& row : rows) {
    first_column.push_back(columns);
    columns += static_cast<int>(row.tokens.size());
    outputs += row.outputs;
    wanted_drafts_.push_back(row.ahead);
  }
  drafting_ = list_drafts(rows, {tokens, tokens + outputs}, shape().context);
  drafted_.assign(rows.size(), {});
  draft_streams_.clear();
  for (const DraftRow& draft : drafting_)
    for (int i = 0; i < static_cast<int>(draft.row.tokens.size()); ++i) draft_streams_.push_back(first_column[draft.index] + i);
  draft_pass_ = -1;
  read_by_drafts_ = 0;
}

std::optional<Sizes> DeviceCore::prepare_draft() {
  if (drafting_.empty()) return std::nullopt;
  std::vector<Row> rows;
  for (const DraftRow& draft : drafting_) rows.push_back(draft.row);
  for (const Row& row : rows) slots_.feed_behind(row);
  const Sizes sizes = fill_input(rows, draft_streams_);
  reserve(room_for(rows, sizes));
  ++draft_pass_;
  read_by_drafts_ += weight_bytes(sizes, true);
  return sizes;
}

// Those that want more go on with what they predicted.
void DeviceCore::take_drafts(const int32_t* tokens) {
  std::vector<DraftRow> further;
  std::vector<int> streams;
  int column = -1;  // the last of the row
  for (DraftRow& draft : drafting_) {
    const int count = static_cast<int>(draft.row.tokens.size());
    column += count;
    if (!draft.row.outputs) continue;
    const int32_t token = *tokens++;
    if (token < 0) continue;
    std::vector<int32_t>& drafted = drafted_[draft.index];
    drafted.push_back(token);
    if (static_cast<int>(drafted.size()) == wanted_drafts_[draft.index] || !may_go_on(draft.row, shape().context)) continue;
    draft.row.position += count;
    draft.row.tokens = {token};
    streams.push_back(column);
    further.push_back(std::move(draft));
  }
  drafting_ = std::move(further);
  draft_streams_ = std::move(streams);
}

}  // namespace paceline::cuda
