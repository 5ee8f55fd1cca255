"""PTX programs for test_ptx.py that break a rule of the emulated device, or nearly; others whose requests to memory are
counted."""

from __future__ import annotations

WAIT = "griddepcontrol.wait;"
# A thread's own word: %rd6 in the first array, %r7 in shared memory, which begins at %r6; the next thread's is at %r8.
OWN = """
mul.wide.u32 %rd5, %r0, 4; add.s64 %rd6, %rd5, %rd1;
mov.u32 %r6, memory; shl.b32 %r5, %r0, 2; add.s32 %r7, %r6, %r5;
add.s32 %r8, %r0, 1; and.b32 %r8, %r8, 63; shl.b32 %r8, %r8, 2; add.s32 %r8, %r8, %r6;
"""
OF_BLOCK = "mov.u32 %r4, %ctaid.x; mul.wide.u32 %rd7, %r4, 256; add.s64 %rd6, %rd6, %rd7;"
NEIGHBOUR = "xor.b32 %r8, %r7, 4;"
SHUFFLE = "shfl.sync.idx.b32 %r10|%p1, %r0, 0, 31, -1;"
PRODUCT = """
mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32 {%r10, %r11, %r12, %r13}, {%r0, %r0}, {%r0}, {%r0, %r0, %r0, %r0};
"""
# The first half of a warp copies 16 bytes for each thread.
COPY = """
shl.b32 %r5, %r0, 4; mov.u32 %r6, memory; add.s32 %r7, %r6, %r5;
setp.gt.s32 %p1, %r0, 15; @%p1 bra $L;
cp.async.cg.shared.global [%r7], [%rd2], 16; cp.async.commit_group;
"""

# Of 64 threads and two blocks with 256 bytes of shared memory; what the device says, or None.
MISUSES = {
    "barrier": (WAIT + OWN + "st.shared.u32 [%r7], %r0; bar.sync 0; ld.shared.u32 %r9, [%r8];", None),
    "no_barrier": (WAIT + OWN + "st.shared.u32 [%r7], %r0; ld.shared.u32 %r9, [%r8];", "a race: it"),
    "read_then_write": (WAIT + OWN + "ld.shared.u32 %r9, [%r8]; st.shared.u32 [%r7], %r0;", "a race: it"),
    "sync_warp": (
        WAIT + OWN + NEIGHBOUR + "st.shared.u32 [%r7], %r0; bar.warp.sync -1; ld.shared.u32 %r9, [%r8];",
        None,
    ),
    "shuffle_only": (
        WAIT + OWN + NEIGHBOUR + "st.shared.u32 [%r7], %r0;" + SHUFFLE + "ld.shared.u32 %r9, [%r8];",
        "no sync_warp() is in between",
    ),
    "same_place": (WAIT + "st.global.u32 [%rd1], 7;", "a race: it writes"),
    "between_blocks": (WAIT + OWN + "st.global.u32 [%rd6], 7;", "nothing orders blocks"),
    "own_places": (WAIT + OWN + OF_BLOCK + "st.global.u32 [%rd6], 7;", None),
    "early_write": (
        OWN + OF_BLOCK + "st.global.u32 [%rd6], 1;" + WAIT,
        "a write to global memory before wait_for_earlier()",
    ),
    "early_read": (
        OWN + "ld.global.u32 %r9, [%rd6];" + WAIT,
        "a read before wait_for_earlier() of what a kernel wrote",
    ),
    "early_strong_read": (
        OWN + "ld.relaxed.gpu.global.u32 %r9, [%rd6];" + WAIT,
        "a read before wait_for_earlier() of what a kernel wrote",
    ),
    "forgotten_wait": (OWN, "without wait_for_earlier"),
    "copy_awaited": (WAIT + COPY + "cp.async.wait_group 0; $L: bar.sync 0; ld.shared.u32 %r9, [%r6];", None),
    "copy_late": (
        WAIT + COPY + "$L: bar.sync 0; @!%p1 cp.async.wait_group 0; ld.shared.u32 %r9, [%r6];",
        "a race: it",
    ),
    "copy_of_what_is_written": (
        WAIT
        + COPY
        + "$L: bar.sync 0; setp.ne.s32 %p2, %r0, 32; @%p2 bra $M; st.global.u32 [%rd2], 1; $M: mov.u32 %r9, 0;"
        + "@!%p1 cp.async.wait_group 0;",
        "no barrier is in between",
    ),
    "read_by_others_too": (  # block 0 reads, then both warps of block 1, which writes
        WAIT
        + "setp.gt.s32 %p1, %r0, 31; @!%p1 ld.global.u32 %r9, [%rd1]; bar.sync 0; @%p1 ld.global.u32 %r9, [%rd1];"
        + "bar.sync 0; mov.u32 %r4, %ctaid.x; setp.ne.s32 %p2, %r4, 1; @%p2 bra $L; setp.ne.s32 %p2, %r0, 0;"
        + "@%p2 bra $L; st.global.u32 [%rd1], 7; $L: mov.u32 %r9, 0;",
        "nothing orders blocks",
    ),
    "read_only": (
        WAIT + OWN + OF_BLOCK + "st.global.u32 [%rd6], 7; bar.sync 0; ld.global.nc.u32 %r9, [%rd6];",
        "a read-only load of what this launch wrote",
    ),
    "written_after_read_only": (
        WAIT + OWN + OF_BLOCK + "ld.global.nc.u32 %r9, [%rd6]; bar.sync 0; st.global.u32 [%rd6], 7;",
        "a write of what this launch read by a read-only load",
    ),
    "two_barriers": (
        WAIT
        + "and.b32 %r5, %r0, 1; setp.eq.s32 %p1, %r5, 0; @%p1 bra $L; bar.sync 0; bra $M;"
        + "$L: bar.sync 0; $M: mov.u32 %r9, 0;",
        "lanes of a warp meet in two barriers",
    ),
    "two_products": (
        WAIT
        + "and.b32 %r5, %r0, 1; setp.eq.s32 %p1, %r5, 0; @%p1 bra $L;"
        + PRODUCT
        + "bra $M; $L:"
        + PRODUCT
        + "$M: mov.u32 %r9, 0;",
        "lanes of a warp meet in two places",
    ),
    "half_a_warp": (
        WAIT + "setp.gt.s32 %p2, %r0, 15; @%p2 bra $L;" + SHUFFLE + "$L: mov.u32 %r9, 0;",
        "only 16 lanes of a warp meet",
    ),
    "some_lanes": (WAIT + SHUFFLE.replace("-1", "65535"), "without all lanes"),
    "past_shared": (WAIT + "mov.u32 %r6, memory; st.shared.u32 [%r6+256], 0;", "outside of shared memory, at 256"),
    "before_shared": (WAIT + "mov.u32 %r6, memory; st.shared.u32 [%r6+-4], 0;", "outside of shared memory, at -4"),
    "misaligned": (WAIT + "ld.global.u32 %r9, [%rd1+2];", "no multiple of 4"),
    "by_zero": (WAIT + "mov.u32 %r5, 0; div.s32 %r9, %r0, %r5;", "division by zero"),
}

GLOBAL_BY = "mul.wide.u32 %rd5, %r0, {}; add.s64 %rd5, %rd5, %rd1;"
SHARED_BY = "mul.lo.s32 %r5, %r0, {}; mov.u32 %r6, memory; add.s32 %r6, %r6, %r5;"
LOAD, LOAD_SHARED = "ld.global.u32 %r9, [%rd5];", "ld.shared.u32 %r9, [%r6];"
FOUR = "{%r9, %r10, %r11, %r12}"

# Of one warp; its requests, their bytes, the transfers, and as few as there could be.
TRAFFIC = {
    "adjacent": (GLOBAL_BY.format(4) + LOAD, (1, 128, 4, 4)),
    "one_place": ("ld.global.u32 %r9, [%rd1];", (1, 4, 1, 1)),
    "far_apart": (GLOBAL_BY.format(32) + LOAD, (1, 128, 32, 4)),
    "vectors": (GLOBAL_BY.format(16) + f"ld.global.v4.u32 {FOUR}, [%rd5];", (1, 512, 16, 16)),
    "other_banks": (SHARED_BY.format(4) + LOAD_SHARED, (1, 128, 1, 1)),
    "two_to_a_bank": (SHARED_BY.format(8) + LOAD_SHARED, (1, 128, 2, 1)),
    "same_bank": (SHARED_BY.format(128) + LOAD_SHARED, (1, 128, 32, 1)),
    "one_word": ("mov.u32 %r6, memory;" + LOAD_SHARED, (1, 4, 1, 1)),
    "shared_vectors": (SHARED_BY.format(16) + f"ld.shared.v4.u32 {FOUR}, [%r6];", (1, 512, 4, 4)),
    "a_loop": (
        GLOBAL_BY.format(4)
        + "mov.u32 %r5, 0; $L:"
        + LOAD
        + "add.s32 %r5, %r5, 1; setp.lt.s32 %p1, %r5, 3; @%p1 bra $L;",
        (3, 384, 12, 12),
    ),
}
