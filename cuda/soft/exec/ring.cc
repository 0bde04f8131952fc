// SPDX-License-Identifier: Apache-2.0
//
// Ring algorithms. Each rank sends to the next and receives from the previous one in the ring's order.
#include <algorithm>

#include "algos.h"

namespace softexec {
namespace {

constexpr Buffer kIn = Buffer::kInput, kOut = Buffer::kOutput, kNo = Buffer::kNone;

// Names as in NCCL's device code. in and out are offsets into the user's buffers.
Op send(size_t in, size_t n) { return {false, true, kIn, kNo, in, 0, n, false}; }
Op copy_send(size_t in, size_t out, size_t n) { return {false, true, kIn, kOut, in, out, n, false}; }
Op recv(size_t out, size_t n) { return {true, false, kNo, kOut, 0, out, n, false}; }
Op recv_copy_send(size_t out, size_t n) { return {true, true, kNo, kOut, 0, out, n, false}; }
Op recv_reduce_send(size_t in, size_t n) { return {true, true, kIn, kNo, in, 0, n, false}; }
Op recv_reduce_copy(size_t in, size_t out, size_t n) { return {true, false, kIn, kOut, in, out, n, true}; }
Op recv_reduce_copy_send(size_t in, size_t out, size_t n) { return {true, true, kIn, kOut, in, out, n, true}; }

// Common state: position in this channel's part of the data.
class Ring : public Schedule {
 public:
  Ring(const Comm &c, const Channel &ch, const Part &p) : ch_(ch), part_(p), nranks_(static_cast<size_t>(c.nranks)) {}

 protected:
  // Elements from the current position on, of a chunk at most.
  size_t chunk() const { return std::min(part_.chunk, part_.size - at_); }
  size_t rank_at(size_t i) const { return static_cast<size_t>(ch_.ranks[i]); }

  const Channel &ch_;
  Part part_;
  size_t nranks_;
  size_t at_ = 0;
};

// Each loop handles as many chunks as there are ranks. A chunk is reduced on its way once around, then handed around once more.
class AllReduce : public Ring {
 public:
  using Ring::Ring;
  bool more(Ops *ops) override {
    if (at_ >= part_.size) return false;
    size_t left = part_.size - at_, size = part_.chunk, index = static_cast<size_t>(ch_.index);
    if (left < nranks_ * size) size = ((left + nranks_ - 1) / nranks_ + align_ - 1) / align_ * align_;
    auto offset = [&](size_t i) { return part_.offset + at_ + i % nranks_ * size; };
    auto count = [&](size_t i) { return std::min(size, left - std::min(left, i % nranks_ * size)); };
    size_t last = index + nranks_ - 1;
    ops->push_back(send(offset(last), count(last)));
    for (size_t j = 2; j < nranks_; j++) ops->push_back(recv_reduce_send(offset(index + nranks_ - j), count(index + nranks_ - j)));
    ops->push_back(recv_reduce_copy_send(offset(index), offset(index), count(index)));
    for (size_t j = 1; j + 1 < nranks_; j++) ops->push_back(recv_copy_send(offset(index + nranks_ - j), count(index + nranks_ - j)));
    ops->push_back(recv(offset(index + 1), count(index + 1)));
    at_ += nranks_ * part_.chunk;
    return true;
  }
  void set_element(size_t bytes) { align_ = 16 / bytes; }

 private:
  size_t align_ = 1;  // elements in 16 bytes
};

class ReduceScatter : public Ring {
 public:
  using Ring::Ring;
  bool more(Ops *ops) override {
    if (at_ >= part_.size) return false;
    size_t n = chunk(), data = part_.offset + at_;
    auto offset = [&](size_t i) { return data + rank_at(i) * part_.count; };
    ops->push_back(send(offset(nranks_ - 1), n));
    for (size_t j = 2; j < nranks_; j++) ops->push_back(recv_reduce_send(offset(nranks_ - j), n));
    ops->push_back(recv_reduce_copy(offset(0), data, n));
    at_ += part_.chunk;
    return true;
  }
};

class AllGather : public Ring {
 public:
  AllGather(const Comm &c, const Channel &ch, const Part &p, const CollWork &w) : Ring(c, ch, p), work_(w) {}
  bool more(Ops *ops) override {
    if (at_ >= part_.size) return false;
    size_t n = chunk(), data = part_.offset + at_;
    auto offset = [&](size_t i) { return data + rank_at(i) * part_.count; };
    bool in_place = work_.send + data == work_.recv + offset(0);
    ops->push_back(in_place ? send(data, n) : copy_send(data, offset(0), n));
    for (size_t j = 1; j + 1 < nranks_; j++) ops->push_back(recv_copy_send(offset(nranks_ - j), n));
    ops->push_back(recv(offset(1), n));
    at_ += part_.chunk;
    return true;
  }

 private:
  const CollWork &work_;
};

class Broadcast : public Ring {
 public:
  Broadcast(const Comm &c, const Channel &ch, const Part &p, const CollWork &w) : Ring(c, ch, p), work_(w) {}
  bool more(Ops *ops) override {
    if (at_ >= part_.size) return false;
    size_t n = chunk(), off = part_.offset + at_;
    if (ch_.ranks[0] == work_.root) {
      ops->push_back(work_.send == work_.recv ? send(off, n) : copy_send(off, off, n));
    } else {
      ops->push_back(ch_.ranks[1] == work_.root ? recv(off, n) : recv_copy_send(off, n));
    }
    at_ += part_.chunk;
    return true;
  }

 private:
  const CollWork &work_;
};

class Reduce : public Ring {
 public:
  Reduce(const Comm &c, const Channel &ch, const Part &p, const CollWork &w) : Ring(c, ch, p), work_(w) {}
  bool more(Ops *ops) override {
    if (at_ >= part_.size) return false;
    size_t n = chunk(), off = part_.offset + at_;
    if (ch_.ranks[nranks_ - 1] == work_.root) {
      ops->push_back(send(off, n));
    } else {
      ops->push_back(ch_.ranks[0] == work_.root ? recv_reduce_copy(off, off, n) : recv_reduce_send(off, n));
    }
    at_ += part_.chunk;
    return true;
  }

 private:
  const CollWork &work_;
};

}  // namespace

std::unique_ptr<Schedule> ring_schedule(const Comm &c, const Channel &ch, const Func &f, const CollWork &w, const Part &part) {
  switch (f.coll) {
    case Coll::kAllReduce: {
      auto s = std::make_unique<AllReduce>(c, ch, part);
      s->set_element(type_size(f.type));
      return s;
    }
    case Coll::kReduceScatter:
      return std::make_unique<ReduceScatter>(c, ch, part);
    case Coll::kAllGather:
      return std::make_unique<AllGather>(c, ch, part, w);
    case Coll::kBroadcast:
      return std::make_unique<Broadcast>(c, ch, part, w);
    default:
      return std::make_unique<Reduce>(c, ch, part, w);
  }
}

}  // namespace softexec
