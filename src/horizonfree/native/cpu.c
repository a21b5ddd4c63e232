/* What the processor can run; built for every processor, asked before the library for newer ones is loaded. */

/* 2 if it has what x86-64-v4 asks for (AVX-512), 1 for x86-64-v3 (AVX2 and FMA), else 0. */
int horizonfree_cpu_level(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))) return 0;
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                   __builtin_cpu_supports("avx512vl")
               ? 2
               : 1;
#else
    return 0;
#endif
}
