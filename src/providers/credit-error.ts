/**
 * How providers report that the account of the operator has no credit left, or that its spend limit is reached: OpenAI
 * with a 429, Anthropic with a 400, xAI with a 403, most others with a 402.
 */

/** Codes and types of an error. They are the provider's own words, whatever the status. */
const CODES: ReadonlySet<string> = new Set([
  // OpenAI; also Perplexity with 401, and another weir.
  'insufficient_quota',
  'billing_hard_limit_reached',
  'billing_not_active',
  // Anthropic.
  'billing_error',
  // Moonshot.
  'exceeded_current_quota_error',
  // Alibaba, Volcengine, MiniMax, Novita, Groq.
  'Arrearage',
  'AccountOverdueError',
  'insufficient_balance_error',
  'NOT_ENOUGH_BALANCE',
  'spend_limit_reached',
  // Gateways: LiteLLM, One API, Vercel.
  'budget_exceeded',
  'insufficient_user_quota',
  'insufficient_funds',
  'insufficient_balance',
  'insufficient_credits',
  'payment_required',
])

/**
 * The beginning of a message: servers quote callers within others, and a caller could rest a target with words of its
 * own. Google's "You exceeded your current quota, please check your plan and billing details" is none of them: it
 * reports a limit for each minute, too.
 */
const MESSAGES = new RegExp(
  [
    // Anthropic.
    'your credit balance is too low',
    'you have reached your specified (?:\\w+ )?(?:api )?usage limits?',
    // DeepSeek, OpenRouter, MiniMax and others.
    'insufficient (?:account )?(?:balance|credits?|funds)',
    'this request requires more credits',
    'key limit exceeded',
    // xAI.
    'your newly created team (?:doesn.t|does not) have any credits',
    'your team \\S+ has (?:either )?used all available credits',
    // Moonshot.
    'your account \\S+ is suspended, please check your plan and billing',
    'you exceeded your current token quota',
    // Gemini.
    'your prepayment credits are depleted',
    // Azure.
    '(?:the|your) (?:azure )?subscription (?:\\S+ )?is (?:disabled|suspended)',
    // SiliconFlow, Zhipu, Alibaba, Fireworks, Hugging Face.
    '(?:sorry, )?(?:your )?account balance is (?:insufficient|not enough|too low)',
    '余额不足',
    'access denied, please make sure your account is in good standing',
    'account \\S+ is suspended, possibly due to',
    'you have exceeded your monthly included credits',
    // Bedrock.
    'INVALID_PAYMENT_INSTRUMENT',
  ]
    .map((words) => `^${words}`)
    .join('|'),
  'i',
)

/** Alibaba has OpenAI's code for a limit of tokens in a minute. */
const RATE_LIMIT = /^allocated quota exceeded/i

interface Words {
  readonly message: string
  readonly type: string
  readonly code: string
}

/** Whether an error with a status of 4xx, or without one, means that. */
export function isCreditExhausted(status: number | undefined, { message, type, code }: Words): boolean {
  if (status === 402) return true
  if (status !== undefined && (status < 400 || status >= 500)) return false
  return !RATE_LIMIT.test(message) && (CODES.has(code) || CODES.has(type) || MESSAGES.test(message))
}
