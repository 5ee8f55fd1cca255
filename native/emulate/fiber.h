// Stacks that take turns on one thread, with a switch of our own: ucontext saves the signal mask with a system call each time
// and costs ten times as much.
#pragma once

#include <cstddef>

namespace paceline::emulate {

// Saves the callee-saved registers on this stack, stores its pointer in *from, and resumes where the stack `to` was left.
extern "C" void paceline_switch_stack(void** from, void* to);

// The pointer to switch to so that `entry` begins on the stack [base, base + size). It must never return.
void* new_stack(void* base, size_t size, void (*entry)());

}  // namespace paceline::emulate
