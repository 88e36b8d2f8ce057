"""ResourceQuotas: what counts against them, for those who admit objects and for those who count them."""
