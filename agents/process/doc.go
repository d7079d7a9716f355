// Package process starts one agent program for one run and ends it with its
// whole process tree: at the program's own end (what it left in the background
// too), at the end of the context, and when a clock runs out.
//
//	spec := process.For(task, "claude", "-p", "--verbose")
//	p, err := process.Start(ctx, spec)         // err is a *turns.Failure or the cause of ctx
//	if err != nil { … }
//	for {
//		line, err := p.ReadLine()
//		if err == io.EOF { break }             // the program closed its output
//		if err != nil { p.Kill(); break }      // why the run is over; Wait says it too
//		…                                      // p.Accepted() once the prompt is accepted
//	}
//	exit := p.Wait()                           // the tree is gone
//	if exit.Err != nil { return exit.Err }     // rota ended it; else judge exit.Code, exit.Stderr
//
// With a lease the program runs under a guard (package guard) and ends even
// when the worker is killed. Without one, or on a system other than Linux, it runs in a
// process group of its own; on Linux everything that carries its mark in the
// environment is swept as well.
package process
