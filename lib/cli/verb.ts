import type { Command } from 'commander'

/** Called with the exit code by a verb that has done its work with another code than 0. */
export type Finish = (exitCode: number) => void

/** Adds a verb to a program or a group of verbs. */
export type Verb = (parent: Command, finish: Finish) => void
