/** What to send in place of a thought signature of Gemini's, and the rejections that ask for it. */

import { rejecting } from './learned-form.ts'

/** The documented replacement for a signature that is not available. */
export const NO_SIGNATURE = 'skip_thought_signature_validator'

/**
 * "Function call is missing a thought_signature in functionCall parts", and "Corrupted thought signature": that of
 * another project or model.
 */
export const rejectsSignature = rejecting('thought[_ ]?signature')
/** The field in all spellings. */
export const SIGNATURE_WORDS = /thought[_ ]?signature/gi
