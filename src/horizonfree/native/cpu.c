/* What the processor can run; built for every processor, asked before the library for newer ones is loaded. */

/* 1 if it has what x86-64-v3 asks for (AVX2 and FMA), else 0. */
int horizonfree_cpu_level(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
#else
    return 0;
#endif
}
