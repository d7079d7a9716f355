// Package workspaces gives each thread its folder: a git worktree of the user's
// repository, the user's folder itself when it is no repository, or a fresh
// folder when the user named none.
//
// # On disk
//
// Everything of rota's lies below one folder, Workspaces.Dir:
//
//	id                        the mark of this disk, see Mark
//	trees/THREAD/             the worktree, or the fresh folder
//	threads/THREAD/lock       locked while an operation works on the thread
//	threads/THREAD/record     what the workspace is; written when it is complete
//	threads/THREAD/guard      the snapshot of a guarded run that has not been verified
//	threads/THREAD/index      stat cache of Tree; may be deleted at any time
//	threads/THREAD/outputs/   whole outputs of attempts
//
// In the user's repository rota writes a branch rota/THREAD, the worktree's
// entry, one commit per checkpoint under refs/rota/THREAD/, and the empty file
// rota.lock in its git folder.
//
// # A repository takes nothing over
//
// Agents can write to the repository's configuration, so git is never run on
// it in a way that could start a program. Working files are read and written
// through a scratch git folder that is made for each operation and shares only
// the objects: no configuration, hook, filter, attribute or index of the
// repository counts there. So files are kept byte for byte; filters such as LFS
// do not run. The few commands that need the repository's own folder (branches
// and refs) run with hooks and monitors switched off.
//
// # Limits
//
// A tree holds files that are not ignored, their bytes and whether they are
// executable. Empty folders, other modes, times and ignored files are not in
// it. Files of nested repositories and of submodules that are checked out count
// like any others. A worktree starts at the source's HEAD: what is not
// committed there is not in it.
package workspaces
