/** What `@nacre/console` exports. The public types are in `public.ts`. */

export { record } from './recording/recorder.js'
