"""Which failures no other request of the same user would mend: filters, keys, quotas."""

from __future__ import annotations

import re

from turnflow.nodes.call_llm.errors.told_error import Told
from turnflow.nodes.call_llm.errors.transient import speaks_of_trouble

_FILTER_CODES = re.compile(
    r"content_?filter|content_policy|responsibleai|data_?inspection|sensitivecontent|moderation_blocked"
    r"|prohibited_content|\b1301\b|invalid_prompt|safety_check|contentpolicyviolation",
)
_FILTER_STATUSES = frozenset({None, 400, 403, 422, 451, 500})
_FILTER = re.compile(
    r"content management policy|content[ _-]?filter|ResponsibleAIPolicy|data_?inspection_?failed"
    r"|inappropriate content|content exists risk|sensitive (?:word|content|info|text)|SensitiveContent|敏感"
    r"|considered high risk|content[ _-]?policy|usage (?:polic|guideline)|\b(?:was|been|were) flagged"
    r"|(?:blocked|rejected|stopped|declined).{0,40}\b(?:safety|moderation)|safety system|prohibited_content"
    r"|ContentPolicyViolation",
    re.IGNORECASE,
)
_BROKEN_FILTER = re.compile(r"filter_?(?:error|timeout|unavailable|failure)")
"""In a code: the filter itself did not work."""
_STOPPED = re.compile(
    r"flagged|blocked|rejected|stopped|declined|violat|inappropriate|prohibited|high risk|due to"
    r"|exists risk|敏感",
    re.IGNORECASE,
)
"""What a filter did, as against what befell it."""
_ENTITLEMENT_STATUSES = frozenset({401, 402, 403})
_QUOTA_CODES = frozenset(
    {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "exceeded_current_quota_error"}
    | {"insufficient_balance", "insufficient_user_quota", "arrearage", "account_deactivated", "1113"}
    | {"allocationquota.freetieronly", "insufficient_credits", "invalid_api_key", "authentication_error"}
    | {"billing_error", "payment_required"}
)
_SERVER = 500
_QUOTA = re.compile(
    r"insufficient[ _](?:quota|balance|credits?|funds)|credit balance is too low|payment required"
    r"|余额不足|欠费|spending limit|(?:requires|add|need) more credits|out of credits"
    r"|account .{0,40}(?:suspended|deactivated)|good standing|free tier.{0,40}exhausted|(?:invalid"
    r"|incorrect) api.?key",
    re.IGNORECASE,
)
_CURRENT_QUOTA = re.compile(r"exceeded your current quota|check your plan and billing", re.IGNORECASE)
_REFILLS = re.compile(
    r"(?:retry|try again) (?:in|after) {1,3}\d|per.?(?:minute|min|second)\b|perminute|persecond",
    re.IGNORECASE,
)
"""What stands in the same words of a provider whose quota is one for a minute."""


def is_filtered(told: Told) -> bool:
    """Whether the provider's filter stopped the request or its reply."""
    codes = [code[:200] for code in told.codes]
    if any(_FILTER_CODES.search(code) and not _BROKEN_FILTER.search(code) for code in codes):
        return True
    if told.status not in _FILTER_STATUSES or not _FILTER.search(told.text):
        return False
    return bool(_STOPPED.search(told.text)) or not speaks_of_trouble(told)


def is_barred(told: Told) -> bool:
    """Whether the key, the account or its credit does not suffice."""
    if told.status in _ENTITLEMENT_STATUSES or not _QUOTA_CODES.isdisjoint(told.codes):
        return True
    if told.status is not None and told.status >= _SERVER:
        return False
    if _QUOTA.search(told.text):
        return True
    return bool(_CURRENT_QUOTA.search(told.text)) and not _REFILLS.search(told.text)
