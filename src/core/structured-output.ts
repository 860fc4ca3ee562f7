/** Which providers hold a model to a JSON schema for its answer, by the documentation of each, as of November 2026. */

/** Claude 4.5 and later have structured outputs. */
const CLAUDE = /claude-[a-z]+-(?:4-[5-9]|4-\d\d(?!\d)|[5-9](?!\d)|\d\d(?!\d))/

/** Whether a Claude model takes `output_config.format` and `strict` tools. Earlier ones reject the fields. */
export function isStructuredClaude(model: string): boolean {
  return CLAUDE.test(model)
}

/** The same of JSON without a schema: Claude has no such mode. */
export function takesJsonMode(dialect: string, model: string): boolean {
  return dialect !== 'anthropic' && dialect !== 'bedrock' && !(dialect === 'vertex' && model.includes('claude'))
}

/**
 * Whether a model of a provider takes a schema. OpenAI, Azure and the servers with their API do, as far as one can know
 * by name; of Bedrock weir asks Converse, to which it sends none.
 */
export function takesSchema(dialect: string, model: string): boolean {
  switch (dialect) {
    case 'bedrock':
      return false
    case 'anthropic':
      return isStructuredClaude(model)
    case 'vertex':
      return !model.includes('claude') || isStructuredClaude(model)
    default:
      return true
  }
}
