"""Who we are to an API server, and where it is: kubeconfig files and service accounts.

`load_credentials` finds them the way kube-scheduler and kubectl do. Tokens, certificates and passwords never
appear in messages or representations.
"""

from mooring.client.api_errors import CredentialsError
from mooring.client.credentials.credentials import Access, Credentials
from mooring.client.credentials.loading import load_credentials, load_user_credentials

__all__ = ["Access", "Credentials", "CredentialsError", "load_credentials", "load_user_credentials"]
