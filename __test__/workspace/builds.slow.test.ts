/** As builds.test.ts, with the compiler of TypeScript. */
import { describeBuilder, typescript } from '../helpers/builders.js'

describeBuilder(typescript)
