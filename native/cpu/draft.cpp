#include "draft.h"

namespace paceline {

int right_outputs(const Row& row, const int32_t* predicted) {
  if (!row.outputs) return 0;
  const int32_t* const drafted = row.tokens.data() + row.tokens.size() - row.outputs + 1;
  int right = 1;
  while (right < row.outputs && drafted[right - 1] == predicted[right - 1]) ++right;
  return right;
}

std::vector<DraftRow> list_drafts(const std::vector<Row>& rows, const std::vector<int32_t>& predicted, int context) {
  std::vector<DraftRow> found;
  const int32_t* outputs = predicted.data();
  for (int r = 0; r < static_cast<int>(rows.size()); outputs += rows[r].outputs, ++r) {
    const Row& row = rows[r];
    const int right = right_outputs(row, outputs), end = row.position + static_cast<int>(row.tokens.size()) - row.outputs + right;
    const int32_t next = end == context ? -1 : right ? outputs[right - 1] : row.following;
    DraftRow one{r, {}};
    one.row = {.slot = row.slot, .tokens = {}, .position = row.position, .outputs = 0, .prompt_tokens = row.prompt_tokens, .table = row.table, .table_size = row.table_size, .sampling = row.sampling};
    one.row.sampling.logprobs = 0;
    one.row.tokens.assign(row.tokens.begin() + 1, row.tokens.begin() + (end - row.position));
    if (next >= 0) {
      one.row.tokens.push_back(next);
      one.row.outputs = row.ahead > 0;
    }
    if (!one.row.tokens.empty()) found.push_back(std::move(one));
  }
  return found;
}

bool may_go_on(const Row& row, int context) {
  const int entry = row.position + static_cast<int>(row.tokens.size());
  return entry + 1 < context && entry / kPage < row.table_size;
}

}  // namespace paceline
