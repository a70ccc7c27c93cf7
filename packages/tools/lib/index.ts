/** What `@nacre/tools` exports. The public types are in public.ts. */

export { toAISDK, toAnthropic, toLangChain, toMastra, toOpenAI, toOpenAIAgents } from './adapters.js'
export { createTools } from './tools.js'
