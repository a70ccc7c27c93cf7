#!/usr/bin/env node
/** The entry of `nacre-compat`. */
import { runProgram } from './index.js'

await runProgram('nacre-compat', process.argv.slice(2))
