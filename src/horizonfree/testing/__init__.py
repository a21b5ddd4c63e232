"""Tests for what users add: explorers, model classes, and the certificates of a problem (docs/testing.md)."""

from horizonfree._exact import optimal_policy as optimal_policy
from horizonfree._exact import optimal_values as optimal_values
from horizonfree._exact import policy_values as policy_values
from horizonfree._exact import task_of as task_of
from horizonfree.testing.certificates import Audit as Audit
from horizonfree.testing.certificates import Report as Report
from horizonfree.testing.certificates import boundary_parameters as boundary_parameters
from horizonfree.testing.certificates import check_certificates as check_certificates
from horizonfree.testing.certificates import is_inside as is_inside
from horizonfree.testing.certificates import linear_map as linear_map
from horizonfree.testing.certificates import random_policy as random_policy
from horizonfree.testing.certificates import random_reward as random_reward
from horizonfree.testing.certificates import to_boundary as to_boundary
from horizonfree.testing.certificates import valid_vertices as valid_vertices
from horizonfree.testing.conformance import ConformanceReport as ConformanceReport
from horizonfree.testing.explorers import check_explorer as check_explorer
from horizonfree.testing.models import check_model as check_model
