"""Examines a live OpenAI-compatible endpoint and writes its profile (docs/doctor.md)."""

from turnflow.apps.doctor.contact import DoctorError
from turnflow.apps.doctor.examine import Examination, examine
from turnflow.apps.doctor.verdict import profile_of

__all__ = ["DoctorError", "Examination", "examine", "profile_of"]
