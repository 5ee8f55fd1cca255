// Gated DeltaNet, token by token: the definition, with one order for every chunk. For one value head at one token, S [key][value]:
//
//   S    = S * decay                                decay = e^(a * softplus(alpha + dt)), beta = sigmoid(b)
//   d    = beta * (v - sum_k S[k] * key[k])         fma over k ascending; lanes are values
//   S[k] = fma(key[k], d, S[k])
//   out  = sum_k S[k] * query[k]                    fma over k ascending
//
// A selective state space (Mamba-2, https://arxiv.org/abs/2405.21060) is the same with d = beta * v, where beta is the step softplus(alpha + dt), and with
// out = fma(skip, v, out) at the end.
#include "operations.h"
#include "simd.h"

namespace paceline::PACELINE_ISA {
namespace {

// What is valid of `lanes`: what follows may be another thread's.
void store_valid(float* destination, Lanes lanes, int valid) {
  if (valid >= kLanes) return store(destination, lanes);
  float tail[kLanes];
  store(tail, lanes);
  for (int i = 0; i < valid; ++i) destination[i] = tail[i];
}

// What a state space gives: what its state is asked for, and a share of the value.
Lanes passed_on(const DeltaRule& rule, const float* values, Lanes out) { return fma(broadcast(*rule.skip), load(values), out); }

constexpr int kWide = 2;  // lanes of values worked on together: S [256][32] is 32 KiB, and stays in the nearest cache
#if defined(__AVX512F__)
constexpr int kTokens = 2;  // of a state space, worked on together
#else
constexpr int kTokens = 1;  // sixteen registers hold no more
#endif

// Of a part of S while a row's tokens pass: [key][wide * kLanes] in the nearest cache.
template <int wide>
struct Columns {
  alignas(64) float s[kDeltaKeys][wide * kLanes];
  const DeltaRule& rule;
  const int first;

  Columns(const DeltaRule& of, int from) : rule(of), first(from) {
    for (int k = 0; k < rule.key_size; ++k)
      for (int j = 0; j < wide; ++j) store(s[k] + kLanes * j, rule.state ? load(rule.state + static_cast<size_t>(k) * rule.value_stride + first + kLanes * j) : zero());
  }

  int valid(int j) const { return rule.value_size - first - kLanes * j; }
  const float* key(int t) const { return rule.keys + t * rule.stride; }
  const float* query(int t) const { return rule.queries + t * rule.stride; }
  const float* values(int t, int j) const { return rule.values + t * rule.stride + first + kLanes * j; }
  Lanes decay(int t) const { return broadcast(rule.decay[t * rule.gate_stride]); }
  Lanes beta(int t) const { return broadcast(rule.beta[t * rule.gate_stride]); }

  void give(int t, int j, Lanes out) const {
    if (rule.out) store_valid(rule.out + t * rule.out_stride + first + kLanes * j, out, valid(j));
  }

  void leave() const {
    for (int k = 0; k < rule.key_size; ++k)
      for (int j = 0; j < wide; ++j) stream(rule.updated + static_cast<size_t>(k) * rule.value_stride + first + kLanes * j, load(s[k] + kLanes * j));
  }
};

// A chain of sums takes an fma's latency for each key. So what the next token sees is summed in the same pass over S in which this token's update is made.
template <int wide>
void delta_columns(const DeltaRule& rule, int first) {
  Columns<wide> columns(rule, first);
  auto& s = columns.s;
  Lanes seen[wide], delta[wide], out[wide], next[wide];
  PACELINE_UNROLL
  for (int j = 0; j < wide; ++j) seen[j] = zero();
  const Lanes first_decay = columns.decay(0);
  for (int k = 0; k < rule.key_size; ++k) {
    PACELINE_UNROLL
    for (int j = 0; j < wide; ++j) {
      const Lanes decayed = load(s[k] + kLanes * j) * first_decay;
      store(s[k] + kLanes * j, decayed);
      seen[j] = fma(decayed, broadcast(columns.key(0)[k]), seen[j]);
    }
  }
  for (int t = 0; t < rule.tokens; ++t) {
    const bool last = t + 1 == rule.tokens;
    const float *const key = columns.key(t), *const query = columns.query(t), *const next_key = columns.key(last ? t : t + 1);
    const Lanes beta = columns.beta(t), next_decay = last ? broadcast(1.0f) : columns.decay(t + 1);
    PACELINE_UNROLL
    for (int j = 0; j < wide; ++j) {
      delta[j] = keep(beta * (load(columns.values(t, j)) - seen[j]), columns.valid(j), zero());
      out[j] = next[j] = zero();
    }
    for (int k = 0; k < rule.key_size; ++k) {
      PACELINE_UNROLL
      for (int j = 0; j < wide; ++j) {
        const Lanes updated = fma(broadcast(key[k]), delta[j], load(s[k] + kLanes * j)), decayed = updated * next_decay;
        store(s[k] + kLanes * j, decayed);  // behind the last token: as it is
        out[j] = fma(updated, broadcast(query[k]), out[j]);
        next[j] = fma(decayed, broadcast(next_key[k]), next[j]);
      }
    }
    PACELINE_UNROLL
    for (int j = 0; j < wide; ++j) {
      columns.give(t, j, out[j]);
      seen[j] = next[j];
    }
  }
  columns.leave();
}

// `tokens` tokens of a state space in one pass over S, for as many chains of sums.
template <int wide, int tokens>
void space_tokens(Columns<wide>& columns, int t) {
  auto& s = columns.s;
  const DeltaRule& rule = columns.rule;
  Lanes delta[tokens][wide], out[tokens][wide], decay[tokens];
  const float *key[tokens], *query[tokens];
  PACELINE_UNROLL
  for (int i = 0; i < tokens; ++i) {
    key[i] = columns.key(t + i);
    query[i] = columns.query(t + i);
    decay[i] = columns.decay(t + i);
    PACELINE_UNROLL
    for (int j = 0; j < wide; ++j) {
      delta[i][j] = keep(columns.beta(t + i) * load(columns.values(t + i, j)), columns.valid(j), zero());
      out[i][j] = zero();
    }
  }
  for (int k = 0; k < rule.key_size; ++k) {
    PACELINE_UNROLL
    for (int j = 0; j < wide; ++j) {
      Lanes now = load(s[k] + kLanes * j);
      PACELINE_UNROLL
      for (int i = 0; i < tokens; ++i) {
        now = fma(broadcast(key[i][k]), delta[i][j], now * decay[i]);
        out[i][j] = fma(now, broadcast(query[i][k]), out[i][j]);
      }
      store(s[k] + kLanes * j, now);
    }
  }
  PACELINE_UNROLL
  for (int i = 0; i < tokens; ++i)
    for (int j = 0; j < wide; ++j) columns.give(t + i, j, passed_on(rule, columns.values(t + i, j), out[i][j]));
}

template <int wide>
void space_columns(const DeltaRule& rule, int first) {
  Columns<wide> columns(rule, first);
  int t = 0;
  for (; t + kTokens <= rule.tokens; t += kTokens) space_tokens<wide, kTokens>(columns, t);
  for (; t < rule.tokens; ++t) space_tokens<wide, 1>(columns, t);
  columns.leave();
}

// A row of one token waits for memory, which gives most where whole rows of S are read: twice, the second time from a near cache, and not copied between.
template <int wide, bool subtracts>
void delta_token(const DeltaRule& rule, int first) {
  const float *const state = rule.state + first, *const keys = rule.keys, *const queries = rule.queries;
  float* const updated = rule.updated + first;
  const int key_size = rule.key_size, valid = rule.value_size - first;
  const size_t stride = static_cast<size_t>(rule.value_stride);
  const Lanes decay = broadcast(*rule.decay), beta = broadcast(*rule.beta);
  Lanes seen[wide], delta[wide], out[wide];
  PACELINE_UNROLL
  for (int j = 0; j < wide; ++j) seen[j] = out[j] = zero();
  for (int k = 0; subtracts && k < key_size; ++k) {
    const Lanes key = broadcast(keys[k]);
    PACELINE_UNROLL
    for (int j = 0; j < wide; ++j) seen[j] = fma(load(state + k * stride + kLanes * j) * decay, key, seen[j]);
  }
  PACELINE_UNROLL
  for (int j = 0; j < wide; ++j) {
    const Lanes values = load(rule.values + first + kLanes * j);
    delta[j] = keep(beta * (subtracts ? values - seen[j] : values), valid - kLanes * j, zero());
  }
  for (int k = 0; k < key_size; ++k) {
    const Lanes key = broadcast(keys[k]), query = broadcast(queries[k]);
    PACELINE_UNROLL
    for (int j = 0; j < wide; ++j) {
      const Lanes now = fma(key, delta[j], load(state + k * stride + kLanes * j) * decay);
      stream(updated + k * stride + kLanes * j, now);
      out[j] = fma(now, query, out[j]);
    }
  }
  if (!rule.out) return;
  PACELINE_UNROLL
  for (int j = 0; j < wide; ++j) {
    const Lanes given = subtracts ? out[j] : passed_on(rule, rule.values + first + kLanes * j, out[j]);
    store_valid(rule.out + first + kLanes * j, given, valid - kLanes * j);
  }
}

template <bool subtracts>
void delta_token(const DeltaRule& rule) {
  int first = 0;
  const auto left = [&] { return rule.value_stride - first; };
  for (; left() >= 8 * kLanes; first += 8 * kLanes) delta_token<8, subtracts>(rule, first);
  for (; left() >= 2 * kLanes; first += 2 * kLanes) delta_token<2, subtracts>(rule, first);
  if (left() > 0) delta_token<1, subtracts>(rule, first);
}

}  // namespace

void delta_rule(const DeltaRule& rule, int part) {
  const int first = part * kDeltaPart;
  static_assert(kDeltaPart == kWide * kLanes);
  const bool whole = rule.value_stride - first >= kDeltaPart;
  if (rule.tokens == 1 && rule.state) {
    if (part == 0) rule.skip ? delta_token<false>(rule) : delta_token<true>(rule);
  } else if (rule.skip) {
    whole ? space_columns<kWide>(rule, first) : space_columns<1>(rule, first);
  } else {
    whole ? delta_columns<kWide>(rule, first) : delta_columns<1>(rule, first);
  }
  end_streams();
}

}  // namespace paceline::PACELINE_ISA
