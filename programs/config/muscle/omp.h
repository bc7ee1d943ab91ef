#pragma once
// One thread.
struct omp_lock_t {};
inline void omp_init_lock(omp_lock_t *) {}
inline void omp_set_lock(omp_lock_t *) {}
inline void omp_unset_lock(omp_lock_t *) {}
inline int omp_get_thread_num() { return 0; }
inline int omp_get_max_threads() { return 1; }
