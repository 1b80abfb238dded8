"""Placement of tenants' VMs with guaranteed bandwidth, burst and packet delay (Silo: Jang et al.,
SIGCOMM 2015; Moncaster, UCAM-CL-TR-921, chapter 5). docs/silo.md has the calculus."""
