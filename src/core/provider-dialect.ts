/**
 * The APIs that providers speak. After a new name here the compiler asks for all that depends on it: its row in
 * `config/provider-dialects.ts`, its adapter, and what its models take.
 */
export type ProviderDialect = 'openai' | 'anthropic' | 'gemini' | 'azure' | 'bedrock' | 'vertex'
