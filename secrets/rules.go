package secrets

import "slices"

// rules are all rules, in the order of the first byte of their prefixes. Of those that fit,
// the first one is taken. The shapes are those that the services document for their tokens, or
// for scanners of secrets.
var rules = inOrder(slices.Concat([]rule{
	// Code and packages.
	{name: "github-token", prefix: "ghp_", body: &base62, min: 36, max: 36, check: withChecksum},
	{name: "github-token", prefix: "gho_", body: &base62, min: 36, max: 36, check: withChecksum},
	{name: "github-token", prefix: "ghu_", body: &base62, min: 36, max: 36, check: withChecksum},
	{name: "github-token", prefix: "ghs_", body: &base62, min: 36, max: 36, check: withChecksum},
	{name: "github-token", prefix: "ghs_", body: &dotted, min: 60, check: installation},
	{name: "github-token", prefix: "ghr_", body: &base62, min: 76, max: 76, check: withChecksum},
	{name: "github-fine-grained-token", prefix: "github_pat_", body: &word, min: 82, max: 82, check: parts(&base62, '_', 22, 59)},
	{name: "gitlab-token", prefix: "glpat-", body: &base64URL, min: 20, max: 300},
	{name: "gitlab-token", prefix: "gldt-", body: &base64URL, min: 20, max: 64},
	{name: "gitlab-token", prefix: "glrt-", body: &base64URL, min: 20, max: 300},
	{name: "gitlab-token", prefix: "glptt-", body: &base64URL, min: 40, max: 64},
	{name: "gitlab-token", prefix: "glagent-", body: &base64URL, min: 50, max: 64},
	{name: "gitlab-token", prefix: "glcbt-", body: &base64URL, min: 22, max: 300},
	{name: "gitlab-token", prefix: "glft-", body: &base64URL, min: 20, max: 64},
	{name: "gitlab-token", prefix: "glimt-", body: &base64URL, min: 20, max: 64},
	{name: "gitlab-token", prefix: "glsoat-", body: &base64URL, min: 20, max: 64},
	{name: "gitlab-token", prefix: "glffct-", body: &base64URL, min: 20, max: 64},
	{name: "gitlab-token", prefix: "gloas-", body: &base64URL, min: 64, max: 64},
	{name: "gitlab-token", prefix: "GR1348941", body: &base64URL, min: 20, max: 20},
	{name: "azure-devops-token", prefix: "AZDO", body: &base62, min: 4, max: 4, before: ending(&base62, azureDevOps-8), given: true},
	{name: "npm-token", prefix: "npm_", body: &base62, min: 36, max: 36},
	{name: "pypi-token", prefix: "pypi-AgE", body: &base64URL, min: 60},
	{name: "rubygems-key", prefix: "rubygems_", body: &lowerHex, min: 48, max: 48},
	{name: "crates-io-token", prefix: "cio", body: &base62, min: 32, max: 32, check: mixed},
	{name: "docker-hub-token", prefix: "dckr_pat_", body: &base64URL, min: 27, max: 27},
	{name: "docker-hub-token", prefix: "dckr_oat_", body: &base64URL, min: 32, max: 32},
	{name: "clojars-token", prefix: "CLOJARS_", body: &lowerHex, min: 60, max: 60},
	{name: "circleci-token", prefix: "CCIPAT_", body: &word, min: 63, max: 63, check: parts(&base62, '_', 22, 40)},
	{name: "circleci-token", prefix: "CCIPRJ_", body: &word, min: 63, max: 63, check: parts(&base62, '_', 22, 40)},

	// Clouds and infrastructure.
	{name: "aws-access-key-id", prefix: "AKIA", body: &base32, min: 16, max: 16},
	{name: "aws-access-key-id", prefix: "ASIA", body: &base32, min: 16, max: 16},
	{name: "aws-secret-access-key", prefix: "aws_secret_access_key", check: assigned(&base64, 40, nil)},
	{name: "aws-secret-access-key", prefix: "AWS_SECRET_ACCESS_KEY", check: assigned(&base64, 40, nil)},
	{name: "aws-secret-access-key", prefix: "SecretAccessKey", check: assigned(&base64, 40, nil)},
	{name: "aws-secret-access-key", prefix: "secretAccessKey", check: assigned(&base64, 40, nil)},
	{name: "aws-secret-access-key", prefix: "AWS_SECRET_KEY", check: assigned(&base64, 40, nil)},
	{name: "aws-secret-access-key", prefix: "aws_secret_key", check: assigned(&base64, 40, nil)},
	{name: "aws-secret-access-key", prefix: "secret_key", check: assigned(&base64, 40, mixed)}, // of others, it may be in hexadecimal
	{name: "aws-bedrock-key", prefix: "ABSK", body: &base64Pad, min: 109, max: 271},
	{name: "google-api-key", prefix: "AIza", body: &base64URL, min: 35, max: 35},
	{name: "google-hmac-key", prefix: "GOOG1E", body: &upper, min: 55, max: 55},
	{name: "google-hmac-key", prefix: "GOOG1E", body: &upper, min: 18, max: 18},
	{name: "google-oauth-secret", prefix: "GOCSPX-", body: &base64URL, min: 28, max: 28},
	{name: "google-oauth-token", prefix: "ya29.", body: &base64URL, min: 50},
	{name: "azure-storage-key", prefix: "AccountKey", check: assigned(&base64Pad, 88, filled)},
	{name: "azure-storage-key", prefix: "accountKey", check: assigned(&base64Pad, 88, filled)},
	{name: "azure-shared-access-key", prefix: "SharedAccessKey", check: assigned(&base64Pad, 44, filled)},
	{name: "azure-shared-access-signature", prefix: "sig=", check: signature},
	{name: "azure-client-secret", prefix: "~", body: &azure, min: 31, max: 34, before: azureVersion},
	{name: "digitalocean-token", prefix: "dop_v1_", body: &lowerHex, min: 64, max: 64},
	{name: "digitalocean-token", prefix: "doo_v1_", body: &lowerHex, min: 64, max: 64},
	{name: "digitalocean-token", prefix: "dor_v1_", body: &lowerHex, min: 64, max: 64},
	{name: "heroku-key", prefix: "HRKU-", body: &base64URL, min: 60, max: 60},
	{name: "cloudflare-origin-key", prefix: "v1.0-", body: &base64URL, min: 171, max: 171, check: parts(&lowerHex, '-', 24, 146)},
	{name: "fly-token", prefix: "fm2_", body: &padded, min: 100},
	{name: "netlify-token", prefix: "nfp_", body: &base62, min: 36, max: 40},
	{name: "hashicorp-vault-token", prefix: "hvs.", body: &base64URL, min: 24, max: 300},
	{name: "hashicorp-vault-token", prefix: "hvb.", body: &base64URL, min: 24, max: 400},
	{name: "terraform-token", prefix: ".atlasv1.", body: &base64URL, min: 60, max: 70, before: ending(&base62, 14)},
	{name: "pulumi-token", prefix: "pul-", body: &lowerHex, min: 40, max: 40},
	{name: "tailscale-key", prefix: "tskey-", body: &base64URL, min: 30, max: 80, check: mixed},
	{name: "planetscale-token", prefix: "pscale_", body: &dotted, min: 36, max: 80, check: named("tkn_", "pw_", "oauth_")},
	{name: "doppler-token", prefix: "dp.", body: &dotted, min: 43, max: 80, check: named("pt.", "st.", "ct.", "sa.", "scim.", "audit.")},
	{name: "databricks-token", prefix: "dapi", body: &lowerHex, min: 32, max: 32},
	{name: "supabase-key", prefix: "sb_secret_", body: &base64URL, min: 31, max: 36},
	{name: "supabase-key", prefix: "sbp_", body: &lowerHex, min: 40, max: 40},
	{name: "grafana-token", prefix: "glsa_", body: &word, min: 41, max: 41, check: parts(&base62, '_', 32, 8)},
	{name: "grafana-token", prefix: "glc_eyJ", body: &base64Pad, min: 40, max: 400},
	{name: "new-relic-key", prefix: "NRAK-", body: &upper, min: 27, max: 27},
	{name: "sentry-token", prefix: "sntrys_eyJ", body: &padded, min: 60, max: 500},
	{name: "sentry-token", prefix: "sntryu_", body: &lowerHex, min: 64, max: 64},
	{name: "dynatrace-token", prefix: "dt0c01.", body: &dotted, min: 89, max: 89, check: parts(&upper, '.', 24, 64)},
	{name: "elastic-cloud-key", prefix: "essu_", body: &base64Pad, min: 80, max: 120},

	// mneme itself: the id of a key, and its secret.
	{name: "mneme-key", prefix: "mneme_", body: &word, min: 65, max: 65, check: parts(&lowerBase36, '_', 16, 48)},

	// Models.
	{name: "anthropic-key", prefix: "sk-ant-", body: &base64URL, min: 80, max: 140},
	{name: "openrouter-key", prefix: "sk-or-v1-", body: &lowerHex, min: 64, max: 64},
	{name: "openai-key", prefix: "sk-", body: &base64URL, min: 48, max: 220, check: containing("T3BlbkFJ")},
	{name: "hugging-face-token", prefix: "hf_", body: &letters, min: 34, max: 34},
	{name: "hugging-face-token", prefix: "api_org_", body: &letters, min: 34, max: 34},
	{name: "replicate-token", prefix: "r8_", body: &base62, min: 37, max: 37},
	{name: "groq-key", prefix: "gsk_", body: &base62, min: 52, max: 52},
	{name: "perplexity-key", prefix: "pplx-", body: &base62, min: 48, max: 48},
	{name: "xai-key", prefix: "xai-", body: &base62, min: 80, max: 80},
	{name: "nvidia-key", prefix: "nvapi-", body: &base64URL, min: 60, max: 70},
	{name: "langsmith-key", prefix: "lsv2_", body: &word, min: 46, max: 46, check: named("pt_", "sk_")},

	// Talk, documents, and work.
	{name: "slack-token", prefix: "xoxb-", body: &base64URL, min: 36, max: 255, check: numbered},
	{name: "slack-token", prefix: "xoxp-", body: &base64URL, min: 40, max: 255, check: numbered},
	{name: "slack-token", prefix: "xoxa-", body: &base64URL, min: 40, max: 255, check: numbered},
	{name: "slack-token", prefix: "xoxc-", body: &base64URL, min: 40, max: 255, check: numbered},
	{name: "slack-token", prefix: "xoxd-", body: &percent, min: 60, max: 500},
	{name: "slack-token", prefix: "xoxr-", body: &base64URL, min: 40, max: 255, check: numbered},
	{name: "slack-token", prefix: "xoxs-", body: &base64URL, min: 40, max: 255, check: numbered},
	{name: "slack-token", prefix: "xoxe-", body: &base64URL, min: 100, max: 255, check: numbered},
	{name: "slack-token", prefix: "xoxe.xoxp-", body: &base64URL, min: 100, max: 255, check: numbered},
	{name: "slack-app-token", prefix: "xapp-", body: &base64URL, min: 70, max: 160, check: numbered},
	{name: "slack-webhook", prefix: "https://hooks.slack.com/services/", body: &base64Pad, min: 40, max: 60},
	{name: "slack-webhook", prefix: "https://hooks.slack.com/workflows/", body: &base64Pad, min: 43, max: 100},
	{name: "slack-webhook", prefix: "https://hooks.slack.com/triggers/", body: &base64Pad, min: 43, max: 100},
	{name: "discord-webhook", prefix: "https://discord.com/api/webhooks/", check: webhook},
	{name: "discord-webhook", prefix: "https://discordapp.com/api/webhooks/", check: webhook},
	{name: "atlassian-token", prefix: "ATATT3", body: &padded, min: 150, max: 250},
	{name: "atlassian-token", prefix: "ATCTT3", body: &padded, min: 150, max: 250},
	{name: "linear-key", prefix: "lin_api_", body: &base62, min: 40, max: 40},
	{name: "notion-token", prefix: "ntn_", body: &base62, min: 46, max: 46},
	{name: "notion-token", prefix: "secret_", body: &base62, min: 43, max: 43, check: mixed},
	{name: "figma-token", prefix: "figd_", body: &base64URL, min: 40, max: 40},
	{name: "airtable-token", prefix: "pat", body: &dotted, min: 79, max: 79, check: parts(&base62, '.', 14, 64)},
	{name: "postman-key", prefix: "PMAK-", body: &base64URL, min: 59, max: 59, check: parts(&hex, '-', 24, 34)},
	{name: "contentful-token", prefix: "CFPAT-", body: &base64URL, min: 43, max: 43},
	{name: "1password-token", prefix: "ops_eyJ", body: &base64Pad, min: 240},

	// Money and mail.
	{name: "stripe-key", prefix: "sk_live_", body: &base62, min: 24, max: 120},
	{name: "stripe-key", prefix: "rk_live_", body: &base62, min: 24, max: 120},
	{name: "stripe-webhook-secret", prefix: "whsec_", body: &base62, min: 32, max: 64},
	{name: "square-token", prefix: "sq0csp-", body: &base64URL, min: 43, max: 43},
	{name: "square-token", prefix: "sq0atp-", body: &base64URL, min: 22, max: 22},
	{name: "shopify-token", prefix: "shpat_", body: &hex, min: 32, max: 32},
	{name: "shopify-token", prefix: "shpca_", body: &hex, min: 32, max: 32},
	{name: "shopify-token", prefix: "shppa_", body: &hex, min: 32, max: 32},
	{name: "shopify-token", prefix: "shpss_", body: &hex, min: 32, max: 32},
	{name: "twilio-key", prefix: "SK", body: &lowerHex, min: 32, max: 32},
	{name: "sendgrid-key", prefix: "SG.", body: &dotted, min: 66, max: 66, check: parts(&base64URL, '.', 22, 43)},
	{name: "brevo-key", prefix: "xkeysib-", body: &base64URL, min: 81, max: 81, check: parts(&base62, '-', 64, 16)},

	// Keys and signed tokens of any service.
	{name: "private-key", prefix: "-----BEGIN ", check: pem("PRIVATE KEY"), given: true},
	{name: "private-key", prefix: encodedBegin, check: encodedPEM, given: true},
	{name: "pgp-private-key", prefix: "-----BEGIN PGP ", check: pem("PRIVATE KEY BLOCK"), given: true},
	{name: "putty-private-key", prefix: "PuTTY-User-Key-File-", check: putty, given: true},
	{name: "age-secret-key", prefix: "AGE-SECRET-KEY-1", body: &bech32, min: 58, max: 58},
	{name: "json-web-token", prefix: "eyJ", body: &dotted, min: 60, check: jwt},
},
	// Tokens without a prefix, which a number begins with, as it is or in base64.
	each("MNO", rule{name: "discord-bot-token", body: &dotted, min: 55, max: 84, check: discordBot}),
	each("123456789", rule{name: "telegram-bot-token", body: &telegram, min: 43, max: 45, check: telegramBot}),
))

// each returns a rule once for each first byte.
func each(firsts string, r rule) (all []rule) {
	for i := range firsts {
		r.prefix = firsts[i : i+1]
		all = append(all, r)
	}
	return all
}

// inOrder sorts rules by the first byte of their prefixes.
func inOrder(rules []rule) []rule {
	slices.SortStableFunc(rules, func(a, b rule) int { return int(a.prefix[0]) - int(b.prefix[0]) })
	return rules
}

// first is the first rule of each byte that a credential begins with.
var first, begins = index()

// pairs is a set of pairs of bytes.
type pairs [1 << 16 / 64]uint64

func (p *pairs) has(a, b byte) bool {
	n := uint(a)<<8 | uint(b)
	return p[n/64]>>(n%64)&1 != 0
}

func (p *pairs) add(a, b byte) {
	n := uint(a)<<8 | uint(b)
	p[n/64] |= 1 << (n % 64)
}

// index returns the first rule of each byte, and the pairs of bytes that credentials begin
// with.
func index() (first [256]int, begins pairs) {
	for i := len(rules) - 1; i >= 0; i-- {
		prefix := rules[i].prefix
		first[prefix[0]] = i
		if len(prefix) > 1 {
			begins.add(prefix[0], prefix[1])
			continue
		}
		for b := range rules[i].body {
			if rules[i].body[b] {
				begins.add(prefix[0], byte(b))
			}
		}
	}
	return first, begins
}
