/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions with instructions to probe, and their callers.
 */
#ifndef _UNWIND_UPROBE_CODE_H
#define _UNWIND_UPROBE_CODE_H

/* Labels. A trace ends in probe_outermost, or in the *_outermost label of its own top. */
extern const char probe_entry_push[], probe_entry_endbr[], probe_after_push[];
extern const char probe_stepped[], probe_stepped_call[], probe_call[], probe_nop[];
extern const char probe_push_caller[], probe_endbr_caller[], probe_outermost[];
extern const char probe_hanging[];
extern const char probe_getppid[], probe_after_getppid[], probe_getppid_caller[];
extern const char probe_getppid_second[], probe_getppid_outermost[];
extern const char probe_call_site[];
extern const char probe_jumps[], probe_after_jump[], probe_jumps_outermost[];
extern const char probe_switches[], probe_asked[], probe_switched[], probe_switch_outermost[];
extern const char probe_handler[], probe_in_handler[], probe_restorer[];
extern const char probe_interrupted[], probe_signal_outermost[];
extern const char probe_edge_outermost[];

void probe_top(void);
void probe_edge_top(void *sp);
void probe_getppid_top(void);
void probe_jumps_top(void);
void probe_switch_top(void);
void probe_signal_top(int tid, int sig);
void probe_with_fp(unsigned long fp);

#endif /* _UNWIND_UPROBE_CODE_H */
